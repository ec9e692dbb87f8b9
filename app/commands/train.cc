#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "app/commands/command_line.h"
#include "app/commands/commands.h"
#include "app/commands/run_options.h"
#include "app/failure.h"
#include "app/mpi.h"
#include "app/training/launch.h"

namespace laconic::app {
namespace {

struct Options {
  RunOptions run;
  bool resume = false, overwrite = false;
};

RunConfig config_of(const Options& options) {
  const auto given = options.run.assignments();
  RunConfig config;
  for (const Assignment& one : given) assign(config, one);
  if (!options.resume) return resolved(std::move(config));
  const bool ranks_given = config.ranks != 0;
  RunConfig resumed = resumed_config(resolved(std::move(config)).out, given);
  if (under_mpirun() && !ranks_given) resumed.ranks = 0;
  return resumed;
}

void run(const Options& options) {
  const RunConfig config = config_of(options);
  Launcher launcher(command_line());
  const Start start = options.resume      ? Start::kResume
                      : options.overwrite ? Start::kOverwrite
                                          : Start::kFresh;
  const Outcome outcome = launcher.run(config, start);
  if (outcome.stopped_by != 0) {
    if (launcher.speaks())
      fmt::print(stderr, "laconic: stopped by signal {}; the same command with --resume goes on\n",
                 outcome.stopped_by);
    throw Exit{kSignalBase + outcome.stopped_by};
  }
  if (!launcher.speaks()) return;
  const auto& summary = outcome.summary;
  fmt::print(
      "validation loss {:.4f}, {} {:.4f}; {:.3f} bits a parameter and step in {} rounds; weights "
      "{}\n",
      summary["final_loss"].get<double>(), summary["metric"].get<std::string>(),
      summary["final_metric"].get<double>(), summary["bits_per_parameter_per_step"].get<double>(),
      summary["rounds"].get<std::int64_t>(), summary["weights_hash"].get<std::string>());
  fmt::print("{}\n", (config.out / "summary.json").string());
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Train a model on several ranks");
  command->footer(
      "Ranks are threads of this process; under mpirun the same command line uses its processes.\n"
      "Examples:\n"
      "  laconic train --task fashion-mnist --model resnet8 --optimizer zero-one-adam\n"
      "  laconic train --task text --data book.txt --model gpt2-mini --optimizer birder --ranks 4 "
      "--emulate 100mbit\n"
      "  laconic train --config run.toml --set optimizer.max_interval=8 --checkpoint-every 100 "
      "--out runs/one\n"
      "  laconic train --out runs/one --resume\n"
      "  mpirun -n 4 laconic train --task sst2 --data sst2 --model bert-mini --init "
      "runs/mlm/model.safetensors");
  add_run_options(*command, options->run);
  command
      ->add_option_function<std::string>(
          "--optimizer",
          [options](const std::string& name) {
            options->run.options.emplace_back("run.optimizer", name);
          },
          "sgdm, adamw, one-bit-adam, zero-one-adam, birder; sgdm-bf16, adamw-bf16 (default "
          "zero-one-adam)")
      ->type_name("NAME");
  command->add_flag("--resume", options->resume,
                    "Go on from the checkpoint in --out; --steps may be raised");
  command->add_flag("--overwrite", options->overwrite, "Replace results that are in --out")
      ->excludes("--resume");
  command->add_flag_callback(
      "--tensorboard", [options] { options->run.options.emplace_back("run.tensorboard", "true"); },
      "Write TensorBoard event files beside the metrics");
  command->callback([options] { run(*options); });
}

}  // namespace laconic::app
