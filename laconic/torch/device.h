#pragma once

#include <torch/torch.h>

#include <string>

// The one place that knows what torch's devices are for the library.
namespace laconic::torch {

// The device in whose memory tensors of torch's device lie: "cpu", "cuda:1"; empty: there is none.
std::string device_named(const ::torch::Device& device);

// What Training::follow() takes: the current stream of this thread there; null on the CPU.
void* current_stream(const ::torch::Device& device);

}  // namespace laconic::torch
