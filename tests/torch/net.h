#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "laconic/torch/data_parallel.h"
#include "tests/optim/training.h"

namespace laconic::testing {

inline constexpr int kInputs = 6, kOutputs = 4, kBatch = 8;

// Three layers, 452 weights from `seed` alone: buckets of 128 cut through its tensors.
struct Net : ::torch::nn::Module {
  explicit Net(int seed, int hidden = 16);
  ::torch::Tensor forward(const ::torch::Tensor& x);

  ::torch::nn::Linear first, middle, last;
};

// As Module::to(), which moves between the CPU and the backends that torch knows.
void put_on(const ::torch::Device& device, ::torch::nn::Linear& layer);

// All parameters and buffers follow from `seed`.
void fill(::torch::nn::Module& module, int seed);

struct Batch {
  ::torch::Tensor x, y;
};
// From its arguments alone.
Batch batch_of(std::int64_t step, int rank);

inline ::torch::Tensor loss_of(Net& net, const Batch& batch) {
  return ::torch::mse_loss(net.forward(batch.x), batch.y);
}

// All parameters one after the other.
std::vector<float> weights_of(const ::torch::nn::Module& module);

// DataParallel over a Net that every rank has filled differently.
struct Replica {
  Replica(Transport& world, const OptimizerConfig& config, ::torch::Device device = ::torch::kCPU);
  // One step on the rank's own batch.
  void step(std::int64_t t, double lr = 0.01);

  Transport& world;
  std::shared_ptr<Net> net;
  torch::DataParallel parallel;
};

// AdamW without weight decay, in buckets of 128.
OptimizerConfig plain_config();

}  // namespace laconic::testing
