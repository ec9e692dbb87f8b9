#pragma once

#include <algorithm>
#include <cstring>

#include "laconic/core/buffer.h"
#include "laconic/core/random.h"

namespace laconic::app::commands {

inline constexpr std::size_t kBlock = 4096;
inline constexpr std::size_t kIntegers = 256;  // elements per scale
inline constexpr int kVoices = 4;

// The arrays that the kernels work on. Values stay near their start however often a kernel runs.
struct KernelArrays {
  explicit KernelArrays(std::size_t n)
      : g(n),
        m(n),
        v(n),
        x(n),
        e(n),
        bits(n + 64),
        coded(n + 64),
        scales(n / kIntegers + 1),
        active(n / 64 / 8 + 8),
        counts(n / 64 * 24 + 24),
        voters(n / 64 + 1),
        half(n) {
    for (std::size_t i = 0; i < n; ++i) {
      const auto r = philox({static_cast<std::uint32_t>(i), 0, 0, 0}, {1, 2});
      g[i] = static_cast<float>(static_cast<std::int32_t>(r[0])) * 0x1p-31F;
      m[i] = static_cast<float>(static_cast<std::int32_t>(r[1])) * 0x1p-32F;
      v[i] = 0.5F + static_cast<float>(r[2]) * 0x1p-33F;
      x[i] = static_cast<float>(static_cast<std::int32_t>(r[3])) * 0x1p-31F;
      bits[i] = static_cast<std::uint8_t>(r[0]);
    }
    std::fill_n(scales.data(), scales.size(), 0.5F);
    std::memset(active.data(), 0xFF, active.size());
    std::fill_n(voters.data(), voters.size(), std::uint16_t{kVoices});
  }
  Buffer<float> g, m, v, x, e;
  Buffer<std::uint8_t> bits, coded;
  Buffer<float> scales;
  Buffer<std::uint8_t> active, counts;
  Buffer<std::uint16_t> voters;
  Buffer<std::uint16_t> half;
};

}  // namespace laconic::app::commands
