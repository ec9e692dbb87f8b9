#pragma once

#include "laconic/torch/data_parallel.h"

namespace laconic::torch {

// DataParallel in the clothes of torch::optim, for loops and learning-rate schedulers of LibTorch:
//
//   laconic::torch::DataParallel parallel(net, {.optimizer = {...}}, world);
//   laconic::torch::Optim optimizer(parallel, 1e-3);
//   torch::optim::StepLR scheduler(optimizer, 30);
//   for (...) {
//     optimizer.zero_grad();
//     loss(net).backward();
//     optimizer.step();
//   }
//
// The learning rate of a step is read at its first gradient. One parameter group with everything;
// groups of DataParallelConfig keep their factors. The caller keeps `parallel` alive.
class Optim : public ::torch::optim::Optimizer {
 public:
  // `accumulate`: so many backward passes make a step.
  Optim(DataParallel& parallel, double lr, int accumulate = 1);
  ~Optim() override;
  Optim(const Optim&) = delete;
  Optim& operator=(const Optim&) = delete;

  ::torch::Tensor step(LossClosure closure = nullptr) override;
  // The same effect as the base's, without a copy at the next backward pass.
  void zero_grad();

  // Throw Error(kUnavailable): state is saved with save_checkpoint() of laconic/checkpoint.
  void save(::torch::serialize::OutputArchive& archive) const override;
  void load(::torch::serialize::InputArchive& archive) override;

 private:
  DataParallel& parallel_;
};

}  // namespace laconic::torch
