#include <map>
#include <mutex>

#include "laconic/core/error.h"
#include "laconic/device/cuda/cuda_device.h"
#include "laconic/device/self_test.h"

namespace laconic::inline device {
namespace {

constexpr std::string_view kEmulated = "emulated", kCuda = "cuda";
constexpr std::string_view kEqual = "equal";

int ordinal_of(std::string_view name) {
  int ordinal = 0;
  for (const char digit : name.substr(std::min(name.size(), kCuda.size() + 1)))
    ordinal = 10 * ordinal + (digit - '0');
  return ordinal;
}

std::shared_ptr<cuda::Gpu> make_gpu(std::string_view name) {
  const cuda::CodeCache cache;
  if (name == kEmulated)
    return std::make_shared<cuda::Gpu>(cuda::emulated_driver(), *cuda::emulated_compiler(), cache,
                                       0);
  const cuda::Driver driver = cuda::open_driver();
  return std::make_shared<cuda::Gpu>(driver, *cuda::open_nvrtc(), cache, ordinal_of(name));
}

// One per name and process: kernels are loaded once.
std::shared_ptr<cuda::Gpu> gpu_named(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<cuda::Gpu>, std::less<>> all;
  const std::lock_guard lock(mutex);
  auto& gpu = all[name == kCuda ? "cuda:0" : std::string(name)];
  if (!gpu) gpu = make_gpu(name);
  return gpu;
}

std::string key_of(const cuda::Gpu& gpu) { return "self-test of " + gpu.identity(); }

DeviceReport compare(const std::shared_ptr<cuda::Gpu>& gpu) {
  CudaDevice device(gpu, 1, "being checked");
  DeviceReport report{gpu->name(), gpu->identity(), compare_with_host(device), true, {}};
  for (const KernelCheck& check : report.checks) report.equal &= check.difference.empty();
  const cuda::CodeCache cache;
  cache.write(key_of(*gpu), report.equal ? std::string(kEqual) : describe(report));
  return report;
}

// A GPU is compared with the CPU before it is first used, and never used after a difference.
void require_equal(const std::shared_ptr<cuda::Gpu>& gpu) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::string found = cuda::CodeCache().read(key_of(*gpu));
  if (found.empty()) {
    const DeviceReport report = compare(gpu);
    found = report.equal ? std::string(kEqual) : describe(report);
  }
  if (found != kEqual)
    fail(
        Code::kUnavailable,
        "{} does not give the bits of the CPU and is not used: train with device = cpu, and attach "
        "this to an issue (python -m laconic.device compares again)\n{}",
        gpu->name(), found);
}

}  // namespace

bool names_device(std::string_view name) noexcept {
  if (name == "cpu" || name == kEmulated || name == kCuda) return true;
  if (!name.starts_with(kCuda) || name.size() < 6 || name.size() > 8 || name[4] != ':')
    return false;
  return name.substr(5).find_first_not_of("0123456789") == std::string_view::npos;
}

std::unique_ptr<Device> make_device(std::string_view name, int threads) {
  if (name == "cpu") return make_host_device(threads);
  if (!names_device(name))
    fail(Code::kInvalidArgument, "there is no device \"{}\": cpu, emulated, cuda or cuda:k", name);
  const auto gpu = gpu_named(name);
  if (name == kEmulated)
    return std::make_unique<CudaDevice>(gpu, threads, "kernels for GPUs on fibers of the CPU");
  require_equal(gpu);
  return std::make_unique<CudaDevice>(gpu, threads,
                                      "compared with the CPU bit for bit at first use");
}

DeviceReport check_device(std::string_view name) {
  if (name == "cpu" || !names_device(name))
    fail(Code::kInvalidArgument, "there is no device \"{}\" to check: emulated, cuda or cuda:k",
         name);
  const auto gpu = gpu_named(name);
  DeviceReport report = compare(gpu);
  if (name != kEmulated && report.equal) {
    constexpr std::size_t kElements = std::size_t{64} << 20;
    CudaDevice device(gpu, 1, "being measured");
    report.speeds = measure_speeds(device, kElements);
  }
  return report;
}

std::string describe(const DeviceReport& report) {
  std::string text = report.identity + '\n';
  for (const KernelCheck& one : report.checks)
    if (!one.difference.empty())
      text += fmt::format("{} ({}, {} elements): {}\n", one.kernel, one.with, one.elements,
                          one.difference);
  return text;
}

}  // namespace laconic::inline device
