#include "laconic/core/hash.h"

#include <xxhash.h>

namespace laconic {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace laconic
