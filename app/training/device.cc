#include "app/training/device.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "laconic/core/error.h"

namespace laconic::app::training {
namespace {

bool wants_cuda(const OptimizerConfig& config) { return config.device.starts_with("cuda"); }

// A build of LibTorch for the CPU has nothing that knows CUDA's streams and memory.
bool torch_has_cuda() { return ::c10::impl::hasDeviceGuardImpl(::c10::DeviceType::CUDA); }

}  // namespace

::torch::Device device_of(const OptimizerConfig& config) {
  if (!wants_cuda(config) || !torch_has_cuda()) return ::torch::kCPU;
  const ::torch::Device named(config.device);
  const ::torch::Device device(::torch::kCUDA, named.has_index() ? named.index() : 0);
  const int seen = ::c10::impl::VirtualGuardImpl(::c10::DeviceType::CUDA).deviceCount();
  if (device.index() >= seen)
    fail(Code::kInvalidArgument,
         "device = {} and LibTorch sees {} GPU(s): see nvidia-smi and CUDA_VISIBLE_DEVICES, or "
         "train with --device cpu",
         config.device, seen);
  return device;
}

std::string place_of_model(const OptimizerConfig& config) {
  if (wants_cuda(config) && !torch_has_cuda())
    return "cpu (this LibTorch has no CUDA, so only the optimizer works on the GPU)";
  return device_of(config).str();
}

}  // namespace laconic::app::training
