#pragma once

#include <torch/torch.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "laconic/core/buffer.h"
#include "laconic/optim/optimizer.h"

namespace laconic::torch {

struct NamedTensor {
  std::string name;
  ::torch::Tensor tensor;
};

// Defined tensors in the module's order, each once, by its first name.
std::vector<NamedTensor> parameters_of(const ::torch::nn::Module& module);
std::vector<NamedTensor> buffers_of(const ::torch::nn::Module& module);

// Throws Error(kInvalidArgument) for what no arena takes: another type than float32, another device
// than the CPU, memory that is not dense and row after row or that two parameters share, a
// parameter that another arena's owner listens to.
void check_parameters(std::span<const NamedTensor> parameters);

// Flat memory of weights and of gradients. Parameters and their gradients become views of it, one
// after the other without gaps; views own the memory too, so they outlive the arena. Gradients
// begin at 0. REQUIRES: check_parameters passed.
class Arena {
 public:
  explicit Arena(std::vector<NamedTensor> parameters);

  std::span<float> weights() const noexcept { return weights_->span(); }
  std::span<float> gradient() const noexcept { return gradient_->span(); }
  // Where each parameter lies.
  const std::vector<NamedRange>& ranges() const noexcept { return ranges_; }
  const std::vector<NamedTensor>& parameters() const noexcept { return parameters_; }
  std::span<float> gradient(std::size_t parameter) const noexcept;

  // Parameters whose memory was replaced by float32 memory of the same shape come back with their
  // values. Throws Error(kInvalidArgument) for other types, shapes and devices.
  void take_home();
  // Somebody gave the parameter a gradient: it lies elsewhere, or is not 0 throughout.
  bool has_gradient(std::size_t parameter) const;
  // What the parameter has as its gradient, elsewhere or not at all (0), becomes what lies in the
  // arena, attached.
  void take_gradient(std::size_t parameter);
  // Attaches what lies in the arena, whatever the parameter had.
  void attach_gradient(std::size_t parameter);

 private:
  ::torch::Tensor view(const std::shared_ptr<Buffer<float>>& memory, std::size_t parameter) const;
  bool attached(std::size_t parameter) const;

  std::vector<NamedTensor> parameters_;
  std::vector<NamedRange> ranges_;
  std::shared_ptr<Buffer<float>> weights_, gradient_;
  std::vector<::torch::Tensor> gradients_;  // the views
};

}  // namespace laconic::torch
