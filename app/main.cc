#include <CLI/CLI.hpp>

#include "app/commands/commands.h"
#include "app/failure.h"

int main(int argc, char** argv) {
  CLI::App app("laconic: train on many machines with very little communication");
  app.footer(
      "Each command has its own --help with examples.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage or a missing part, 3 a rank was lost, 4 "
      "diverged,\n"
      "5 replicas differ, 6 a --fail-if did not hold, 130 and 143 stopped by Ctrl-C and SIGTERM.");
  app.require_subcommand(1);
  laconic::app::commands::add_train(app);
  laconic::app::commands::add_compare(app);
  laconic::app::commands::add_eval(app);
  laconic::app::commands::add_report(app);
  laconic::app::commands::add_bench(app);
  laconic::app::commands::add_plan(app);
  laconic::app::commands::add_doctor(app);
  laconic::app::commands::add_methods(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (...) {
    return laconic::app::report_failure();
  }
}
