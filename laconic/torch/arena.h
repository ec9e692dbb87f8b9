#pragma once

#include <torch/torch.h>

#include <span>
#include <string>
#include <vector>

#include "laconic/optim/optimizer.h"

namespace laconic::torch {

struct NamedTensor {
  std::string name;
  ::torch::Tensor tensor;
};

// Defined tensors in the module's order, each once, by its first name.
std::vector<NamedTensor> parameters_of(const ::torch::nn::Module& module);
std::vector<NamedTensor> buffers_of(const ::torch::nn::Module& module);

// Throws Error(kInvalidArgument) for what no arena takes: another type than float32, a device that
// the library has no kernels for or several devices, memory that is not dense and row after row or
// that two parameters share, a parameter that another arena's owner listens to.
void check_parameters(std::span<const NamedTensor> parameters);

// Flat memory of weights and of gradients, on the parameters' device. Parameters and their
// gradients become views of it, one after the other without gaps; views own the memory too, so they
// outlive the arena. Gradients begin at 0. Torch's operations work on it, on its current stream.
// REQUIRES: check_parameters passed.
class Arena {
 public:
  explicit Arena(std::vector<NamedTensor> parameters);

  // Addresses of the device's memory, and the same memory as tensors.
  std::span<float> weights() const { return span_of(weights_); }
  std::span<float> gradient() const { return span_of(gradient_); }
  const ::torch::Tensor& flat_weights() const noexcept { return weights_; }
  const ::torch::Tensor& flat_gradient() const noexcept { return gradient_; }
  ::torch::Device device() const { return weights_.device(); }
  // Where each parameter lies.
  const std::vector<NamedRange>& ranges() const noexcept { return ranges_; }
  const std::vector<NamedTensor>& parameters() const noexcept { return parameters_; }
  const ::torch::Tensor& gradient(std::size_t parameter) const { return gradients_[parameter]; }

  // Parameters whose memory was replaced by float32 memory of the same shape come back with their
  // values. Throws Error(kInvalidArgument) for other types, shapes and devices.
  void take_home();
  // Somebody gave the parameter a gradient: it lies elsewhere, or is not 0 throughout. The host
  // waits for the device to know.
  bool has_gradient(std::size_t parameter) const;
  // What the parameter has as its gradient, elsewhere or not at all (0), becomes what lies in the
  // arena, attached.
  void take_gradient(std::size_t parameter);
  // Attaches what lies in the arena, whatever the parameter had.
  void attach_gradient(std::size_t parameter);

 private:
  static std::span<float> span_of(const ::torch::Tensor& memory) {
    return {memory.data_ptr<float>(), static_cast<std::size_t>(memory.numel())};
  }
  ::torch::Tensor view(const ::torch::Tensor& memory, std::size_t parameter) const;
  bool attached(std::size_t parameter) const;

  std::vector<NamedTensor> parameters_;
  std::vector<NamedRange> ranges_;
  ::torch::Tensor weights_, gradient_;
  std::vector<::torch::Tensor> gradients_;  // the views
};

}  // namespace laconic::torch
