#include "laconic/torch/device.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "laconic/core/error.h"

namespace laconic::torch {

std::string device_named(const ::torch::Device& device) {
  if (device.is_cpu()) return "cpu";
  if (device.is_cuda()) return fmt::format("cuda:{}", device.has_index() ? device.index() : 0);
  // A backend for tests, whose memory is that of the library's stand-in for a GPU.
  const bool emulated = device.is_privateuseone() && ::c10::get_privateuse1_backend() == "emulated";
  return emulated ? "emulated" : "";
}

void* current_stream(const ::torch::Device& device) {
  if (device.is_cpu()) return nullptr;
  const ::c10::impl::VirtualGuardImpl guard(device.type());
  void* const handle = guard.getStream(device).native_handle();
  constexpr std::uintptr_t kLegacy = 1;  // CU_STREAM_LEGACY: the default stream has the handle 0
  return handle != nullptr ? handle : reinterpret_cast<void*>(kLegacy);
}

}  // namespace laconic::torch
