#include "laconic/device/cuda/driver.h"

#include <dlfcn.h>

#include "laconic/core/error.h"

namespace laconic::cuda {
namespace {

constexpr int kOutOfMemory = 2, kNoDevice = 100, kInsufficientDriver = 35, kNoBinary = 209,
              kUnsupportedPtx = 222;

// What a user can do about an error of the driver.
const char* remedy_of(int result) {
  switch (result) {
    case kOutOfMemory:
      return "the GPU is out of memory: 0/1 Adam needs 16 bytes per parameter beside the model; "
             "use a smaller model or batch, or another GPU";
    case kNoDevice:
      return "there is no GPU that CUDA can use: check nvidia-smi and "
             "CUDA_VISIBLE_DEVICES, or train with device = cpu";
    case kInsufficientDriver:
    case kUnsupportedPtx:
      return "the driver is too old for NVRTC: NVRTC 13 needs a driver from 580 on, NVRTC 12 from "
             "525 on; update the driver, or install an older NVRTC";
    case kNoBinary: return "NVRTC made no code for this GPU: install an NVRTC that knows it";
    default:
      return "if it comes again, check the GPU (nvidia-smi, dmesg); resume from the last "
             "checkpoint, "
             "on this device or with device = cpu";
  }
}

}  // namespace

void Driver::check(int result, const char* what) const {
  if (result == 0) return;
  const char* name = nullptr;
  error_name(result, &name);
  fail(Code::kUnavailable, "CUDA: {} failed with {} ({}): {}", what,
       name ? name : "an unknown error", result, remedy_of(result));
}

Driver open_driver(const char* library) {
  const char* name = library ? library : "libcuda.so.1";
  void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);  // never closed: it does not unload cleanly
  if (handle == nullptr)
    fail(Code::kUnavailable,
         "CUDA: {} cannot be opened ({}): install NVIDIA's driver on this machine, or train with "
         "device = cpu",
         name, dlerror());
  Driver driver{};
  const auto bind = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
    if (function == nullptr)
      fail(Code::kUnavailable, "CUDA: {} has no {}: update NVIDIA's driver to 525 or later", name,
           symbol);
  };
  bind(driver.init, "cuInit");
  bind(driver.version, "cuDriverGetVersion");
  bind(driver.device_count, "cuDeviceGetCount");
  bind(driver.device_get, "cuDeviceGet");
  bind(driver.device_name, "cuDeviceGetName");
  bind(driver.attribute, "cuDeviceGetAttribute");
  bind(driver.retain, "cuDevicePrimaryCtxRetain");
  bind(driver.push, "cuCtxPushCurrent_v2");
  bind(driver.pop, "cuCtxPopCurrent_v2");
  bind(driver.load, "cuModuleLoadData");
  bind(driver.find, "cuModuleGetFunction");
  bind(driver.launch, "cuLaunchKernel");
  bind(driver.allocate, "cuMemAlloc_v2");
  bind(driver.free, "cuMemFree_v2");
  bind(driver.allocate_pinned, "cuMemHostAlloc");
  bind(driver.free_pinned, "cuMemFreeHost");
  bind(driver.to_host, "cuMemcpyDtoHAsync_v2");
  bind(driver.to_device, "cuMemcpyHtoDAsync_v2");
  bind(driver.on_device, "cuMemcpyDtoDAsync_v2");
  bind(driver.set_bytes, "cuMemsetD8Async");
  bind(driver.set_words, "cuMemsetD32Async");
  bind(driver.stream_create, "cuStreamCreate");
  bind(driver.stream_destroy, "cuStreamDestroy_v2");
  bind(driver.stream_wait, "cuStreamWaitEvent");
  bind(driver.event_create, "cuEventCreate");
  bind(driver.event_destroy, "cuEventDestroy_v2");
  bind(driver.event_record, "cuEventRecord");
  bind(driver.event_wait, "cuEventSynchronize");
  bind(driver.event_query, "cuEventQuery");
  bind(driver.error_name, "cuGetErrorName");
  return driver;
}

}  // namespace laconic::cuda
