#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace laconic {

// XXH3, 64 bits: the same value on every machine. Finds accidents, not adversaries.
std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;

}  // namespace laconic
