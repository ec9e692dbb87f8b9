#include <CLI/CLI.hpp>

#include "app/commands/commands.h"

namespace laconic::app::commands {

void add_bench(CLI::App& app) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure kernels, means, steps and loops on this machine");
  bench->require_subcommand(1);
  add_bench_kernels(*bench);
  add_bench_loop(*bench);
  add_bench_mean(*bench);
  add_bench_step(*bench);
}

}  // namespace laconic::app::commands
