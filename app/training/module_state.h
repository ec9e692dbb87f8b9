#pragma once

#include <torch/torch.h>

#include <span>
#include <vector>

#include "laconic/torch/data_parallel.h"

// What a module holds beside its weights, and how it is looked at between steps.
namespace laconic::app::training {

// The module as it is evaluated and saved: weights of the last sync, statistics averaged over the
// ranks. Afterwards this rank's own again, so that looking changes nothing. Collective.
class Looking {
 public:
  explicit Looking(torch::DataParallel& parallel) : parallel_(parallel), synced_(parallel) {
    const ::torch::NoGradGuard no_grad;
    for (const auto& buffer : parallel.module().buffers()) own_.push_back(buffer.clone());
    parallel.average_buffers();
  }
  ~Looking() {
    const ::torch::NoGradGuard no_grad;
    auto buffers = parallel_.module().buffers();
    for (std::size_t i = 0; i < own_.size(); ++i) buffers[i].copy_(own_[i]);
  }
  Looking(const Looking&) = delete;

 private:
  torch::DataParallel& parallel_;
  torch::DataParallel::Synced synced_;
  std::vector<::torch::Tensor> own_;
};

// The buffers' values as numbers, in the module's order, and back.
std::vector<double> pack_buffers(const ::torch::nn::Module& module);
void unpack_buffers(std::span<double> values, ::torch::nn::Module& module);

}  // namespace laconic::app::training
