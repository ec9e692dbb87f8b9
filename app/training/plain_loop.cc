#include "app/training/plain_loop.h"

#include <torch/torch.h>

#include "app/models/model.h"
#include "app/timing.h"
#include "laconic/core/error.h"
#include "laconic/torch/data_parallel.h"
#include "laconic/transport/threads.h"

namespace laconic::app::training {
namespace {

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

LoopTimes time_on(const LoopConfig& config, Transport& world) {
  at::set_num_threads(config.threads);
  data::DataConfig wanted;
  wanted.task = config.task;
  wanted.path = "generated";
  const auto data = data::open_dataset(wanted);
  data::Batch batch;
  data->read(
      data::Split::kTrain,
      data::examples_of(data::Order(data->size(data::Split::kTrain), 1), 1, 0, 1, config.batch), 0,
      batch);
  const auto inputs = models::inputs_of(batch, data->shape()),
             targets = models::targets_of(batch, data->shape());
  const auto make = [&] {
    auto model = models::make_model({.name = config.model, .dropout = 0}, data->shape(), 1);
    model->train();
    return model;
  };
  const auto first = make(), second = make();
  PlainLoop plain(first);
  OurLoop ours(second, world, config.threads);
  for (int i = 0; i < 3; ++i) {
    plain.step(inputs, targets);
    ours.step(inputs, targets);
  }
  LoopTimes times;
  times.largest_difference = largest_difference(*first, *second);
  // A sign that flips where a gradient is next to 0 moves a weight by lr.
  if (!(times.largest_difference < 2 * kLr))
    fail(Code::kCorrupt, "after 3 steps of AdamW a weight differs by {:g} from torch's own",
         times.largest_difference);
  for (int i = 0; i < config.repeats; ++i) {  // taking turns, so that a busy machine slows both
    times.plain.push_back(seconds_of([&] { plain.step(inputs, targets); }));
    times.ours.push_back(seconds_of([&] { ours.step(inputs, targets); }));
  }
  return times;
}

}  // namespace

LoopTimes time_loops(const LoopConfig& config) {
  LoopTimes times;
  run_threads(1, [&](Transport& world) { times = time_on(config, world); });
  return times;
}

}  // namespace laconic::app::training
