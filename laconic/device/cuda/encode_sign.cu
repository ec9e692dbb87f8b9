#include "laconic/device/cuda/encode.h"

// One bit per element and one scale per block.
namespace laconic::cuda {
namespace {

struct SignCodec {
  static constexpr int kNone = 1;
  Norm norm;

  __device__ SumOfWeights measure() const { return {norm}; }
  __device__ bool settle(float sum, std::int64_t counted, float& scale) const {
    scale = scale_of_sum(sum, counted, norm);
    return isfinite(sum);
  }
  __device__ float inverse_of(float) const { return 0; }
  __device__ int code_of(float p, float) const { return signbit(p) ? -1 : 1; }
  __device__ float left_of(float p, float scale, int, float gain) const {
    return residual_of(p, scale, gain);
  }
  __device__ float decoded(float scale, int code) const {
    return kernels::decoded(scale, code < 0);
  }
};

}  // namespace

LACONIC_KERNEL encode_sign(EncodeArguments of) {
  __shared__ Shared shared;
  auto* words = reinterpret_cast<std::uint32_t*>(row_message(of.out.payload, of.out.stride));
  auto* scales = reinterpret_cast<float*>(words + whole_words(of.rows.capacity) / 32);
  encode(
      of, shared, SignCodec{of.norm},
      [&](std::int64_t begin, int step, int code) {
        const std::uint32_t word = ballot(code < 0);
        if (thread() % kWarp == 0) (words + begin / 32 + thread() / kWarp)[step * kWarps] = word;
      },
      [&](std::int64_t block, float scale) { scales[block] = scale; });
}

}  // namespace laconic::cuda
