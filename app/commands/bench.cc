#include <CLI/CLI.hpp>

#include "app/commands/commands.h"

namespace laconic::app {

void add_bench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure kernels, means and steps on this machine");
  bench->require_subcommand(1);
  add_bench_kernels(*bench);
  add_bench_mean(*bench);
  add_bench_step(*bench);
}

}  // namespace laconic::app
