#include "laconic/device/cuda/gpu.h"

#include "laconic/core/error.h"

namespace laconic::cuda {
namespace {

constexpr int kOldestArchitecture = 70;

}  // namespace

Gpu::Current::Current(const Gpu& gpu) : driver_(gpu.driver_) {
  driver_.check(driver_.push(gpu.context_), "making the GPU current");
}
Gpu::Current::Current(const Gpu& gpu, std::nothrow_t) noexcept : driver_(gpu.driver_) {
  driver_.push(gpu.context_);
}
Gpu::Current::~Current() {
  Context context{};
  driver_.pop(&context);
}

Gpu::Gpu(const Driver& driver, const Compiler& compiler, const CodeCache& cache, int ordinal)
    : driver_(driver), ordinal_(ordinal) {
  driver_.check(driver_.init(0), "starting the driver");
  int count = 0, device = 0, major = 0, minor = 0, version = 0;
  driver_.check(driver_.device_count(&count), "counting GPUs");
  if (ordinal >= count)
    fail(Code::kUnavailable,
         "CUDA: there is no GPU {}, the driver sees {}: check nvidia-smi and CUDA_VISIBLE_DEVICES, "
         "or "
         "train with device = cpu",
         ordinal, count);
  char name[256] = {};
  driver_.check(driver_.device_get(&device, ordinal), "opening the GPU");
  driver_.check(driver_.device_name(name, sizeof name, device), "naming the GPU");
  driver_.check(driver_.attribute(&major, kMajor, device), "asking for compute capability");
  driver_.check(driver_.attribute(&minor, kMinor, device), "asking for compute capability");
  driver_.check(driver_.version(&version), "asking for the driver's version");
  name_ = name;
  architecture_ = major * 10 + minor;
  if (architecture_ < kOldestArchitecture)
    fail(Code::kUnavailable,
         "CUDA: {} has compute capability {}.{}, 7.0 or more is needed: train with device = cpu",
         name_, major, minor);
  driver_.check(driver_.retain(&context_, device), "opening the GPU's context");
  identity_ = fmt::format("{}, compute capability {}.{}, driver {}, {}, texts {}", name_, major,
                          minor, version, compiler.version(), texts_hash());
  load(compiler, cache);
}

void Gpu::load(const Compiler& compiler, const CodeCache& cache) {
  const Current current(*this);
  std::map<std::string_view, Module> modules;
  for (const Text& one : kernel_texts()) {
    const std::string code = cache.code_of(compiler, one.name, one.text, architecture_);
    driver_.check(driver_.load(&modules[one.name], code.data()), "loading the kernels");
  }
  for (const Kernel& kernel : all_kernels())
    driver_.check(driver_.find(&functions_[kernel.name], modules.at(kernel.file),
                               std::string(kernel.name).c_str()),
                  "looking for a kernel");
}

}  // namespace laconic::cuda
