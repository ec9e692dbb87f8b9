#include "app/training/module_state.h"

namespace laconic::app::training {

std::vector<double> pack_buffers(const ::torch::nn::Module& module) {
  std::vector<double> all;
  for (const auto& buffer : module.buffers()) {
    const auto flat = buffer.to(::torch::kCPU, ::torch::kFloat64).contiguous();
    all.insert(all.end(), flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  }
  return all;
}

void unpack_buffers(std::span<double> values, ::torch::nn::Module& module) {
  const ::torch::NoGradGuard no_grad;
  std::size_t at = 0;
  for (auto& buffer : module.buffers()) {
    buffer.copy_(::torch::from_blob(values.data() + at, buffer.sizes(), ::torch::kFloat64));
    at += static_cast<std::size_t>(buffer.numel());
  }
}

}  // namespace laconic::app::training
