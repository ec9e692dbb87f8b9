#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "app/commands/commands.h"
#include "app/machine.h"
#include "app/timing.h"
#include "app/training/plain_loop.h"

namespace laconic::app::commands {
namespace {

struct LoopOptions {
  training::LoopConfig loop;
  bool json = false;
};

void run(const LoopOptions& options) {
  const training::LoopConfig& loop = options.loop;
  const training::LoopTimes times = training::time_loops(loop);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times.plain.size(); ++i)
    ratios.push_back(times.ours[i] / times.plain[i]);
  const Sample a(times.plain), b(times.ours), ratio(ratios);
  const nlohmann::json row{{"model", loop.model},
                           {"batch", loop.batch},
                           {"threads", loop.threads},
                           {"plain_seconds", a.median},
                           {"seconds", b.median},
                           {"ratio", b.median / a.median},
                           {"ratio_of_pairs", ratio.median},
                           {"largest_difference", times.largest_difference}};
  if (options.json)
    fmt::print("{}\n", nlohmann::json::array({row}).dump(2));
  else
    fmt::print(
        "{} with AdamW, batch {}, {} thread(s): plain LibTorch loop {:.2f} ms, laconic {:.2f} ms, "
        "ratio {:.3f}\n",
        loop.model, loop.batch, loop.threads, 1e3 * a.median, 1e3 * b.median, b.median / a.median);
}

}  // namespace

void add_bench_loop(CLI::App& bench) {
  auto options = std::make_shared<LoopOptions>();
  options->loop.threads = cores();
  CLI::App* command = bench.add_subcommand(
      "loop", "A training step on one rank against the plain LibTorch loop with torch's AdamW");
  command->footer("Example: laconic bench loop --model gpt2-mini --task text --batch 8 --json");
  command->add_option("--task", options->loop.task, "Task whose generated data is used")
      ->capture_default_str();
  command->add_option("--model", options->loop.model, "Model")->capture_default_str();
  command->add_option("--batch", options->loop.batch, "Examples a step")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--repeats", options->loop.repeats, "Timed steps of each")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--threads", options->loop.threads, "Threads (default: all cores)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "An array of objects instead of text");
  command->callback([options] { run(*options); });
}

}  // namespace laconic::app::commands
