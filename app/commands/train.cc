#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "app/commands/command_line.h"
#include "app/commands/commands.h"
#include "app/commands/run_options.h"
#include "app/failure.h"
#include "app/mpi.h"
#include "app/training/launch.h"
#include "app/training/restarts.h"
#include "laconic/checkpoint/checkpoint.h"
#include "laconic/core/error.h"
#include "laconic/optim/method.h"

namespace laconic::app::commands {
namespace {

struct TrainOptions {
  RunOptions run;
  bool resume = false, overwrite = false, keys = false;
  int restarts = 0;
};

// Both together begin anew where there is nothing to go on with.
training::Start start_of(const TrainOptions& options, const std::filesystem::path& out) {
  if (options.resume && (!options.overwrite || has_checkpoint(out / "checkpoint")))
    return training::Start::kResume;
  return options.overwrite ? training::Start::kOverwrite : training::Start::kFresh;
}

std::pair<training::RunConfig, training::Start> planned(const TrainOptions& options) {
  const auto given = options.run.assignments();
  training::RunConfig config;
  for (const training::Assignment& one : given) training::assign(config, one);
  const bool ranks_given = config.ranks != 0;
  config = training::resolved(std::move(config));
  const training::Start start = start_of(options, config.out);
  if (start == training::Start::kResume) {
    config = training::resumed_config(config.out, given);
    if (under_mpirun() && !ranks_given) config.ranks = 0;
  }
  return {config, start};
}

[[noreturn]] void run_restarting(const TrainOptions& options) {
  if (under_mpirun())
    fail(Code::kInvalidArgument,
         "--restarts is for ranks that are threads; mpirun ends a job with its first rank that "
         "dies: start it again in a loop with --resume --overwrite "
         "(docs/how-to/restart-after-faults.md)");
  std::vector<std::string> words = arguments();
  const auto given = std::ranges::find_if(
      words, [](const std::string& word) { return word.starts_with("--restarts"); });
  words.erase(given, given + (*given == "--restarts" ? 2 : 1));
  throw Exit{training::run_with_restarts(words, {"--resume", "--overwrite"}, options.restarts)};
}

// One key per line, columns two spaces apart.
void print_keys() {
  const auto print = [](auto name, auto text, auto allowed, auto resume, auto help) {
    fmt::print("{:<23}  {:<13}  {:<43}  {:<6}  {}\n", name, text, allowed, resume, help);
  };
  print("key", "default", "allowed", "resume", "meaning");
  for (const training::KeyDescription& key : training::describe_keys())
    print(key.name, key.default_text, key.allowed, key.may_change ? "free" : "same", key.help);
}

void run(const TrainOptions& options) {
  if (options.keys) return print_keys();
  if (options.restarts > 0) run_restarting(options);
  const auto [config, start] = planned(options);
  training::Launcher launcher(command_line(), config.timeout);
  const training::Outcome outcome = launcher.run(config, start);
  if (outcome.stopped_by != 0) {
    if (launcher.speaks())
      fmt::print(stderr, "laconic: stopped by signal {}; the same command with --resume goes on\n",
                 outcome.stopped_by);
    throw Exit{kSignalBase + outcome.stopped_by};
  }
  if (!launcher.speaks()) return;
  const auto& summary = outcome.summary;
  fmt::print(
      "validation loss {:.4f}, {} {:.4f}; {:.3f} bits per parameter and step in {} rounds; weights "
      "{}\n",
      summary["final_loss"].get<double>(), summary["metric"].get<std::string>(),
      summary["final_metric"].get<double>(), summary["bits_per_parameter_per_step"].get<double>(),
      summary["rounds"].get<std::int64_t>(), summary["weights_hash"].get<std::string>());
  fmt::print("{}\n", (config.out / "summary.json").string());
}

// Every method; exact ones also with bf16 on the wire.
std::string optimizer_help() {
  std::string names, narrow;
  for (const Method* method : methods()) {
    names += (names.empty() ? "" : ", ") + method->name;
    if (method->exact) narrow += ", " + method->name + "-bf16";
  }
  return fmt::format("{}{}; laconic methods describes them (default {})", names, narrow,
                     training::RunConfig{}.arm);
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train a model on several ranks");
  command->footer(
      "Ranks are threads of this process; under mpirun the same command line uses its processes.\n"
      "Examples:\n"
      "  laconic train --task fashion-mnist --model resnet8 --optimizer adamw\n"
      "  laconic train --task text --data book.txt --model gpt2-mini --ranks 4 --emulate 100mbit\n"
      "  laconic train --config run.toml --set optimizer.max_interval=8 --checkpoint-every 100 "
      "--out runs/one\n"
      "  laconic train --out runs/one --resume\n"
      "  laconic train --config run.toml --checkpoint-every 100 --out runs/one --restarts 5\n"
      "  mpirun -n 4 laconic train --task sst2 --data sst2 --model bert-mini --init "
      "runs/mlm/model.safetensors");
  add_run_options(*command, options->run);
  command
      ->add_option_function<std::string>(
          "--optimizer",
          [options](const std::string& name) {
            options->run.options.emplace_back("run.optimizer", name);
          },
          optimizer_help())
      ->type_name("NAME");
  command->add_flag("--resume", options->resume,
                    "Go on from the checkpoint in --out; --steps may be raised");
  command->add_flag("--overwrite", options->overwrite,
                    "Replace results that are in --out; with --resume only where there is no "
                    "checkpoint to go on from");
  command
      ->add_option(
          "--restarts", options->restarts,
          "Start again from the last checkpoint, at most N times, when the process is killed "
          "or crashes, or a rank is lost (ranks that are threads)")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  command->add_flag_callback(
      "--elastic", [options] { options->run.options.emplace_back("run.elastic", "true"); },
      "A resume may have another number of ranks; not to the same bits then");
  command->add_flag_callback(
      "--tensorboard", [options] { options->run.options.emplace_back("run.tensorboard", "true"); },
      "Write TensorBoard event files beside the metrics");
  command
      ->add_option_function<std::string>(
          "--trace",
          [options](const std::string& file) {
            options->run.options.emplace_back("run.trace", file);
          },
          "Write when each bucket was computed, encoded, sent and decoded: a Chrome trace per rank "
          "(ui.perfetto.dev shows it)")
      ->type_name("FILE");
  command->add_flag("--keys", options->keys,
                    "Print every key of --set and of config files, with defaults; laconic methods "
                    "has those of [optimizer]");
  command->callback([options] { run(*options); });
}

}  // namespace laconic::app::commands
