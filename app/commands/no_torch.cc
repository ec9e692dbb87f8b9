#include <CLI/CLI.hpp>

#include "app/commands/commands.h"
#include "laconic/core/error.h"

// The commands that need LibTorch, where laconic was built without it.
namespace laconic::app::commands {
namespace {

void add_missing(CLI::App& app, const char* name, const char* help) {
  CLI::App* command = app.add_subcommand(name, help);
  command->allow_extras();
  command->callback([name] {
    fail(Code::kUnavailable,
         "laconic {}: this laconic was built without LibTorch: `./run build` builds it with, as "
         "does -DLACONIC_WITH_TORCH=ON "
         "where torch is found",
         name);
  });
}

}  // namespace

void add_train(CLI::App& app) { add_missing(app, "train", "Train a model (not in this build)"); }
void add_compare(CLI::App& app) {
  add_missing(app, "compare", "Compare optimizers (not in this build)");
}
void add_bench_loop(CLI::App& bench) {
  add_missing(bench, "loop", "A step against the plain LibTorch loop (not in this build)");
}
void add_eval(CLI::App& app) {
  add_missing(app, "eval", "Evaluate a saved model (not in this build)");
}

}  // namespace laconic::app::commands
