#pragma once

#include <array>
#include <cstdint>

// Functions that kernels of other devices call too.
#ifdef __CUDACC__
#define LACONIC_HOST_DEVICE __host__ __device__
#else
#define LACONIC_HOST_DEVICE
#endif

namespace laconic::inline core {

// What a random number is for. Streams never share a counter.
enum class Stream : std::uint32_t {
  kWorkerDraw = 0,
  kOwnerDraw = 1,
  kDealing = 2,
  kData = 3,
  kDropout = 4,
};

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

inline constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53;
inline constexpr std::uint32_t kPhiloxMultiplier1 = 0xCD9E8D57;
inline constexpr std::uint32_t kPhiloxWeyl0 = 0x9E3779B9;
inline constexpr std::uint32_t kPhiloxWeyl1 = 0xBB67AE85;

// Philox4x32-10 (Salmon et al. 2011): 128 random bits as a pure function of counter and key.
LACONIC_HOST_DEVICE constexpr PhiloxCounter philox(PhiloxCounter c, PhiloxKey k) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{kPhiloxMultiplier0} * c[0];
    const std::uint64_t b = std::uint64_t{kPhiloxMultiplier1} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(a)};
    k[0] += kPhiloxWeyl0;
    k[1] += kPhiloxWeyl1;
  }
  return c;
}

}  // namespace laconic::inline core
