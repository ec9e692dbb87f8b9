#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "app/commands/commands.h"
#include "app/machine.h"
#include "app/models/model.h"
#include "app/timing.h"
#include "laconic/core/error.h"
#include "laconic/torch/data_parallel.h"
#include "laconic/transport/threads.h"

namespace laconic::app::commands {
namespace {

struct Options {
  std::string task = "text", model = "gpt2-mini";
  std::int64_t batch = 8;
  int repeats = 30, threads = 0;
  bool json = false;
};

constexpr double kLr = 1e-3;

// The loop that a LibTorch user writes for one machine.
class PlainLoop {
 public:
  explicit PlainLoop(std::shared_ptr<models::Network> model)
      : model_(std::move(model)),
        adamw_(model_->parameters(), ::torch::optim::AdamWOptions(kLr).weight_decay(0)) {}
  void step(const ::torch::Tensor& inputs, const ::torch::Tensor& targets) {
    adamw_.zero_grad();
    models::loss_of(model_->forward(inputs), targets).backward();
    adamw_.step();
  }

 private:
  std::shared_ptr<models::Network> model_;
  ::torch::optim::AdamW adamw_;
};

class OurLoop {
 public:
  OurLoop(std::shared_ptr<models::Network> model, Transport& world, int threads)
      : model_(std::move(model)),
        parallel_(
            model_,
            {.optimizer = {.algorithm = "adamw", .threads = threads}, .groups = {}, .grouping = {}},
            world) {}
  void step(const ::torch::Tensor& inputs, const ::torch::Tensor& targets) {
    parallel_.begin(kLr);
    models::loss_of(model_->forward(inputs), targets).backward();
    parallel_.step();
  }

 private:
  std::shared_ptr<models::Network> model_;
  torch::DataParallel parallel_;
};

double largest_difference(const models::Network& a, const models::Network& b) {
  double most = 0;
  const auto left = a.parameters(), right = b.parameters();
  for (std::size_t i = 0; i < left.size(); ++i)
    most = std::max(most, (left[i] - right[i]).abs().max().item<double>());
  return most;
}

void run(const Options& options, Transport& world) {
  const int threads = options.threads > 0 ? options.threads : cores();
  at::set_num_threads(threads);
  data::DataConfig wanted;
  wanted.task = options.task;
  wanted.path = "generated";
  const auto data = data::open_dataset(wanted);
  data::Batch batch;
  data->read(
      data::Split::kTrain,
      data::examples_of(data::Order(data->size(data::Split::kTrain), 1), 1, 0, 1, options.batch), 0,
      batch);
  const auto inputs = models::inputs_of(batch, data->shape()),
             targets = models::targets_of(batch, data->shape());
  const auto make = [&] {
    auto model = models::make_model({.name = options.model, .dropout = 0}, data->shape(), 1);
    model->train();
    return model;
  };
  const auto first = make(), second = make();
  PlainLoop plain(first);
  OurLoop ours(second, world, threads);
  for (int i = 0; i < 3; ++i) {
    plain.step(inputs, targets);
    ours.step(inputs, targets);
  }
  const double difference = largest_difference(*first, *second);
  if (!(difference <
        2 * kLr))  // a sign that flips where a gradient is next to 0 moves a weight by lr
    fail(Code::kCorrupt, "after 3 steps of AdamW a weight differs by {:g} from torch's own",
         difference);
  std::vector<double> plain_seconds, our_seconds, ratios;
  for (int i = 0; i < options.repeats; ++i) {  // taking turns, so that a busy machine slows both
    plain_seconds.push_back(seconds_of([&] { plain.step(inputs, targets); }));
    our_seconds.push_back(seconds_of([&] { ours.step(inputs, targets); }));
    ratios.push_back(our_seconds.back() / plain_seconds.back());
  }
  const Sample a(plain_seconds), b(our_seconds), ratio(ratios);
  const nlohmann::json row{{"model", options.model},
                           {"batch", options.batch},
                           {"threads", threads},
                           {"plain_seconds", a.median},
                           {"seconds", b.median},
                           {"ratio", b.median / a.median},
                           {"ratio_of_pairs", ratio.median},
                           {"largest_difference", difference}};
  if (options.json)
    fmt::print("{}\n", nlohmann::json::array({row}).dump(2));
  else
    fmt::print(
        "{} with AdamW, batch {}, {} thread(s): plain LibTorch loop {:.2f} ms, laconic {:.2f} ms, "
        "ratio {:.3f}\n",
        options.model, options.batch, threads, 1e3 * a.median, 1e3 * b.median, b.median / a.median);
}

}  // namespace

void add_bench_loop(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "loop", "A training step on one rank against the plain LibTorch loop with torch's AdamW");
  command->footer("Example: laconic bench loop --model gpt2-mini --task text --batch 8 --json");
  command->add_option("--task", options->task, "Task whose generated data is used")
      ->capture_default_str();
  command->add_option("--model", options->model, "Model")->capture_default_str();
  command->add_option("--batch", options->batch, "Examples a step")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--repeats", options->repeats, "Timed steps of each")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads (default: all cores)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "An array of objects instead of text");
  command->callback([options] { run_threads(1, [&](Transport& world) { run(*options, world); }); });
}

}  // namespace laconic::app::commands
