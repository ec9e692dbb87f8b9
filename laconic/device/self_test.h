#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "laconic/device/device.h"

namespace laconic::inline device {

// What one kernel did on a device and on the host.
struct KernelCheck {
  std::string kernel, with;  // "encode_sign", "pending momentum, L1 scales of 4096, masked"
  std::size_t elements = 0;
  std::string difference;  // empty: every bit is equal (a NaN's payload apart)
};

// Runs every kernel on awkward values, about a million elements in all: NaN, infinities, denormals,
// zeros of both signs, dead blocks, ragged ends.
std::vector<KernelCheck> compare_with_host(Device& device);

// Bytes of memory that a kernel moved, per second; the messages of encode_… and decode_… cross to the
// host and back, as in training. The first is the device's own copy.
struct KernelSpeed {
  std::string kernel;
  double gb_per_second = 0;
};
std::vector<KernelSpeed> measure_speeds(Device& device, std::size_t elements);

// How a device was checked.
struct DeviceReport {
  std::string name;      // "emulated", "NVIDIA A100-SXM4-80GB"
  std::string identity;  // what the result is valid for: GPU, driver, compiler, kernels
  std::vector<KernelCheck> checks;
  bool equal = true;
  std::vector<KernelSpeed> speeds = {};  // of GPUs
};

// Opens a device ("emulated", "cuda:0") and compares it, whatever was found before; what is found is
// kept for make_device.
DeviceReport check_device(std::string_view name);

// The kernels that differ, as text to attach to an issue.
std::string describe(const DeviceReport& report);

}  // namespace laconic::inline device
