#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "app/commands/commands.h"
#include "app/commands/help.h"
#include "app/failure.h"

namespace commands = laconic::app::commands;

int main(int argc, char** argv) {
  CLI::App app(
      "laconic: train on many machines with very little communication\n"
      "Examples:\n"
      "  laconic compare --task fashion-mnist --data generated --model resnet8 --emulate 20mbit "
      "--seconds 20\n"
      "  laconic train --task text --data book.txt --model gpt2-mini --ranks 2\n"
      "  laconic plan --model bert-base --nodes 8 --inter 10gbit");
  commands::set_help_format(app);
  app.footer(
      "\nEach command has its own --help with examples.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage or a missing part, 3 a rank was lost, 4 "
      "diverged,\n"
      "5 replicas differ, 6 a --fail-if did not hold, 130 and 143 stopped by Ctrl-C and SIGTERM.");
  app.require_subcommand(1);
  const auto add = [&](const char* group, auto... adders) {
    (adders(app), ...);
    for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
      if (command->get_group() == "Subcommands") command->group(group);
  };
  add("Train", commands::add_train, commands::add_compare);
  add("Look at results", commands::add_report, commands::add_eval);
  add("Measure and plan", commands::add_plan, commands::add_bench, commands::add_doctor);
  add("Look up", commands::add_methods);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "laconic: {}\n", commands::explained(app, error, argc, argv));
    return 2;
  } catch (...) {
    return laconic::app::report_failure();
  }
}
