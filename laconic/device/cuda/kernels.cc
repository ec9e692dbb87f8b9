#include "laconic/device/cuda/kernels.h"

namespace laconic::cuda {

// Made of the files by the build.
namespace texts {
extern const std::string_view kArguments, kArithmetic, kArray, kBlock, kCmath, kCstdint, kDecode,
    kDecodeHeader, kEncodeDense, kEncodeHeader, kEncodeIntegers, kEncodeSign, kEncodeTopK, kLanes,
    kPasses, kRandom, kSigns, kSource, kTensors;
}  // namespace texts

std::span<const Kernel> all_kernels() noexcept {
#define LACONIC_KERNEL_ROW(kernel, Arguments, file) Kernel{#kernel, file, sizeof(Arguments)},
  static constexpr Kernel kAll[] = {LACONIC_CUDA_KERNELS(LACONIC_KERNEL_ROW)};
  return kAll;
}

std::span<const Text> kernel_texts() noexcept {
  static const Text kAll[] = {{"decode.cu", texts::kDecode},
                              {"encode_dense.cu", texts::kEncodeDense},
                              {"encode_integers.cu", texts::kEncodeIntegers},
                              {"encode_sign.cu", texts::kEncodeSign},
                              {"encode_top_k.cu", texts::kEncodeTopK},
                              {"passes.cu", texts::kPasses},
                              {"signs.cu", texts::kSigns},
                              {"tensors.cu", texts::kTensors}};
  return kAll;
}

std::span<const Text> header_texts() noexcept {
  static const Text kAll[] = {{"array", texts::kArray},
                              {"cmath", texts::kCmath},
                              {"cstdint", texts::kCstdint},
                              {"laconic/core/random.h", texts::kRandom},
                              {"laconic/device/cuda/arguments.h", texts::kArguments},
                              {"laconic/device/cuda/block.h", texts::kBlock},
                              {"laconic/device/cuda/decode.h", texts::kDecodeHeader},
                              {"laconic/device/cuda/encode.h", texts::kEncodeHeader},
                              {"laconic/device/cuda/lanes.h", texts::kLanes},
                              {"laconic/device/cuda/source.h", texts::kSource},
                              {"laconic/kernels/arithmetic.h", texts::kArithmetic}};
  return kAll;
}

}  // namespace laconic::cuda
