#pragma once

#include <torch/torch.h>

#include <string>

#include "laconic/optim/config.h"

namespace laconic::app::training {

// Where a run's model is trained: on the optimizer's GPU where LibTorch has CUDA, else on the CPU.
// Throws Error(kInvalidArgument) for a GPU that LibTorch does not see.
::torch::Device device_of(const OptimizerConfig& config);

// The same for a run's first line: "cuda:0"; "cpu", with the reason where only the optimizer is on a
// GPU.
std::string place_of_model(const OptimizerConfig& config);

}  // namespace laconic::app::training
