#include "app/commands/run_options.h"

#include <CLI/CLI.hpp>

#include "laconic/core/error.h"

namespace laconic::app::commands {

std::vector<training::Assignment> RunOptions::assignments() const {
  std::vector<training::Assignment> all;
  if (!config.empty()) all = training::read_toml(config);
  all.insert(all.end(), options.begin(), options.end());
  for (const std::string& one : set) all.push_back(training::parse_assignment(one));
  return all;
}

void add_run_options(CLI::App& command, RunOptions& options) {
  const char* group = "What is trained";
  const auto add = [&](const char* option, std::string key, const char* help) {
    return command
        .add_option_function<std::string>(
            option,
            [&options, key = std::move(key)](const std::string& value) {
              options.options.emplace_back(key, value);
            },
            help)
        ->group(group);
  };
  const auto add_flag = [&](const char* option, std::string key, const char* help) {
    command
        .add_flag_callback(
            option, [&options, key = std::move(key)] { options.options.emplace_back(key, "true"); },
            help)
        ->group(group);
  };
  add("--task", "run.task", "fashion-mnist, cifar10, text, mlm or sst2")->type_name("TASK");
  add("--data", "run.data", "File or folder; \"generated\": a small made-up set")
      ->type_name("PATH");
  add("--model", "run.model",
      "resnet8, resnet20, resnet18, resnet50, gpt2-mini, gpt2, bert-mini, bert-base, bert-large")
      ->type_name("NAME");
  group = "Ranks and network";
  add("--ranks", "run.ranks",
      "Ranks: threads of this process (default 2); under mpirun what it started")
      ->type_name("N");
  group = "How it is trained";
  add("--steps", "run.steps", "Steps in all (default: the model's)")->type_name("N");
  add("--batch", "run.batch", "Examples per rank and step (default: the model's)")->type_name("N");
  add("--seed", "run.seed", "Seed of weights, data order and random signs (default 1)")
      ->type_name("S");
  add("--lr", "run.lr", "Peak learning rate (default: tuned for model and optimizer)")
      ->type_name("LR");
  group = "Ranks and network";
  add("--threads", "run.threads", "Threads per rank (default: cores/ranks)")->type_name("N");
  add("--device", "optimizer.device",
      "Where model and optimizer are: cpu, cuda or cuda:k; emulated: the GPU's kernels on the CPU, "
      "for tests (default cpu)")
      ->type_name("NAME");
  add("--emulate", "run.emulate", "A slow network, e.g. 100mbit or 1gbit,50us")
      ->type_name("RATE[,LATENCY]");
  add("--ranks-per-node", "optimizer.ranks_per_node",
      "Nodes: exact inside, coded between (default flat)")
      ->type_name("N");
  add("--exchange", "optimizer.exchange",
      "auto: each bucket dense, coded or flat, whichever is measured to be faster, and with the "
      "codec that is where the method takes several; random signs also two-round, single-round or "
      "count")
      ->type_name("FORM");
  add_flag("--strict", "optimizer.strict",
           "--exchange auto decides once, before the first coded step, and keeps to the "
           "configured codec");
  add_flag("--guard", "optimizer.guard",
           "A spike of the loss or of the residual is answered with some exact steps");
  group = "Files";
  add("--init", "run.init", "Start from this model.safetensors, where names are equal")
      ->type_name("FILE");
  add("--out", "run.out", "Where results go (default runs/…)")->type_name("DIR");
  add("--checkpoint-every", "run.checkpoint_every",
      "Save every N steps, and at the end (default: only when stopped)")
      ->type_name("N");
  command
      .add_option("--config", options.config,
                  "A TOML file: sections run, schedule, optimizer, model, data")
      ->type_name("FILE")
      ->group("Any setting");
  command.add_option("--set", options.set, "section.key=value: any key of the config file")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->group("Any setting");
}

}  // namespace laconic::app::commands
