#pragma once

namespace CLI {
class App;
}

// Each adds one command to the command line; parsing it runs it.
namespace laconic::app::commands {

void add_train(CLI::App& app);
void add_compare(CLI::App& app);
void add_eval(CLI::App& app);
void add_report(CLI::App& app);
void add_bench(CLI::App& app);
void add_bench_kernels(CLI::App& bench);
void add_bench_loop(CLI::App& bench);
void add_bench_mean(CLI::App& bench);
void add_bench_step(CLI::App& bench);
void add_doctor(CLI::App& app);
void add_methods(CLI::App& app);
void add_plan(CLI::App& app);

}  // namespace laconic::app::commands
