#include "laconic/device/cuda/kernels.h"

#include <vector>

namespace laconic::cuda {

// Made by cmake/kernel_texts.cmake.
extern const Text kKernelTexts[];
extern const std::size_t kKernelTextsCount;
extern const Text kHeaderTexts[];
extern const std::size_t kHeaderTextsCount;

namespace {

#define LACONIC_KERNEL(kernel, Arguments, file) Kernel{#kernel, file, sizeof(Arguments)},
constexpr Kernel kKernels[] = {LACONIC_CUDA_KERNELS(LACONIC_KERNEL)};
#undef LACONIC_KERNEL

// NVRTC has no standard headers; the kernels need this much of them.
constexpr Text kStandard[] = {
    {"cmath", ""},
    {"cstddef", "namespace std { using size_t = decltype(sizeof 0); }"},
    {"cstdint",
     "using int8_t = signed char; using uint8_t = unsigned char;\n"
     "using int16_t = short; using uint16_t = unsigned short;\n"
     "using int32_t = int; using uint32_t = unsigned;\n"
     "using int64_t = long long; using uint64_t = unsigned long long;\n"
     "namespace std {\n"
     "using ::int8_t; using ::uint8_t; using ::int16_t; using ::uint16_t;\n"
     "using ::int32_t; using ::uint32_t; using ::int64_t; using ::uint64_t;\n"
     "}\n"},
    {"array",
     "namespace std {\n"
     "template <class T, decltype(sizeof 0) kSize>\n"
     "struct array {\n"
     "  T at_[kSize];\n"
     "  __host__ __device__ constexpr T& operator[](decltype(sizeof 0) i) { return at_[i]; }\n"
     "  __host__ __device__ constexpr const T& operator[](decltype(sizeof 0) i) const {\n"
     "    return at_[i];\n"
     "  }\n"
     "};\n"
     "}\n"},
};

}  // namespace

std::span<const Kernel> all_kernels() noexcept { return kKernels; }

std::span<const Text> kernel_texts() noexcept { return {kKernelTexts, kKernelTextsCount}; }

std::span<const Text> header_texts() noexcept {
  static const std::vector<Text> all = [] {
    std::vector<Text> texts(kHeaderTexts, kHeaderTexts + kHeaderTextsCount);
    for (const Text& one : kStandard) texts.push_back(one);
    return texts;
  }();
  return all;
}

}  // namespace laconic::cuda
