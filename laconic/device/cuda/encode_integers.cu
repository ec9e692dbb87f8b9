#include "laconic/device/cuda/encode.h"

// Integers of 8, 4 or 2 bits and one scale per block.
namespace laconic::cuda {
namespace {

struct IntegerCodec {
  static constexpr int kNone = 0;
  int bits;

  __device__ LargestMagnitude measure() const { return {}; }
  __device__ bool settle(float largest, std::int64_t, float& scale) const {
    scale = integer_scale(largest, bits);
    return isfinite(largest) && scale <= largest_scale(bits);
  }
  __device__ float inverse_of(float scale) const { return inverse_scale(scale); }
  __device__ int code_of(float p, float inverse) const {
    return kernels::code_of(p, inverse, largest_code(bits));
  }
  __device__ float left_of(float p, float scale, int code, float gain) const {
    return residual_of(p, scale, code, gain);
  }
  __device__ float decoded(float scale, int code) const { return kernels::decoded(scale, code); }
};

}  // namespace

LACONIC_KERNEL encode_integers(EncodeArguments of) {
  __shared__ Shared shared;
  const int bits = of.bits, fields = 32 / bits, field = thread() & (fields - 1);
  auto* words = reinterpret_cast<std::uint32_t*>(row_message(of.out.payload, of.out.stride));
  auto* scales = reinterpret_cast<float*>(words + whole_words(of.rows.capacity) / 32 * bits);
  encode(
      of, shared, IntegerCodec{bits},
      [&](std::int64_t begin, int step, int code) {
        std::uint32_t word = (static_cast<std::uint32_t>(code) & ((1U << bits) - 1))
                             << field * bits;
        for (int near = 1; near < fields; near *= 2) word |= swap_lanes(word, near);
        if (field == 0)
          (words + begin / 32 * bits + thread() / fields)[step * kWarps * bits] = word;
      },
      [&](std::int64_t block, float scale) { scales[block] = scale; });
}

}  // namespace laconic::cuda
