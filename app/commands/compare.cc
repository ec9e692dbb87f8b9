#include "app/commands/compare.h"

#include <CLI/CLI.hpp>

#include "app/commands/commands.h"
#include "app/plan/arms.h"

namespace laconic::app::commands {

void add_compare(CLI::App& app) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare", "Train with several optimizers on the same data order and seeds");
  command->footer(
      "The first optimizer is the baseline; a dense one is also run with bf16 on the wire.\n"
      "Examples:\n"
      "  laconic compare --task fashion-mnist --model resnet8 --ranks 4 --seeds 3\n"
      "  laconic compare --task text --data book.txt --model gpt2-mini --optimizers "
      "adamw,one-bit-adam --emulate 100mbit\n"
      "  laconic compare --task fashion-mnist --model resnet8 --emulate 20mbit --seconds 30 "
      "--target-metric 80%\n"
      "  laconic compare --task text --data book.txt --model gpt2-mini --frontier --tune 200 "
      "--seeds 3 "
      "--network 100mbit,1ms --optimizers adamw,adamw:codec=int8/int4,local-steps:every=4/16\n"
      "  laconic compare --config run.toml --fail-if 'loss>+1%' --fail-if 'bits>2'");
  add_run_options(*command, options->run);
  command->option_defaults()->group("The comparison");
  options->optimizers = plan::default_optimizers();
  command
      ->add_option(
          "--optimizers", options->optimizers,
          "Methods, joined by commas, perhaps with options (adamw:codec=int4:feedback=ema) or "
          "several values of one (local-steps:every=4/8); the first is the baseline")
      ->delimiter(',')
      ->type_name("A,B,…")
      ->capture_default_str();
  command
      ->add_option("--seconds", options->seconds,
                   "The same training time for each instead of the same steps: a short rehearsal "
                   "fixes how many steps fit")
      ->type_name("S")
      ->check(CLI::Range(0.01, 1e9));
  command
      ->add_option_function<std::string>(
          "--target-loss",
          [options](const std::string& text) {
            options->target.loss = training::parse_target(text, "--target-loss");
          },
          "Report the time until the validation loss is this low")
      ->type_name("X");
  command
      ->add_option_function<std::string>(
          "--target-metric",
          [options](const std::string& text) {
            options->target.metric = training::parse_target(text, "--target-metric");
          },
          "Report the time until the accuracy (0.84 or 84%) or the perplexity is this good")
      ->type_name("X")
      ->excludes("--target-loss");
  command
      ->add_option("--tune", options->tune,
                   "First choose the rate of each: three, or five where the best is at an end, are "
                   "tried for so many steps; a tenth of the training data that is held out decides")
      ->type_name("STEPS")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command->add_flag(
      "--frontier", options->frontier,
      "Draw loss against bits, rounds and time, and name those that no other beats; one "
      "that diverges is left out and named");
  command
      ->add_option("--network", options->network,
                   "Compute the time on this network (100mbit,1ms), from some steps of each on it")
      ->type_name("RATE[,LATENCY]")
      ->excludes("--emulate");
  command->add_option("--seeds", options->seeds, "Runs of each, with seeds S, S+1, …")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--fail-if", options->gates,
                   "End with exit code 6 if an arm meets this, e.g. \"loss>+1%\"")
      ->type_name("CONDITION")
      ->allow_extra_args(false);
  command->add_flag("--resume", options->resume, "Keep the runs in --out that are finished");
  command->add_flag("--overwrite", options->overwrite, "Replace results that are in --out")
      ->excludes("--resume");
  command->callback([options] { compare(*options); });
}

}  // namespace laconic::app::commands
