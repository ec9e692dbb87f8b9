#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "laconic/transport/transport.h"
#include "tests/support/thrown.h"

namespace laconic {

inline constexpr int kEveryone = -1;

// Byte i of what `from` sends to `to` in exchange number `exchange`.
inline std::byte byte_of(int from, int to, int exchange, std::size_t i) {
  std::uint64_t x = i + 1000003u * static_cast<std::uint64_t>(from + 1) +
                    7919u * static_cast<std::uint64_t>(to + 2) +
                    104729u * static_cast<std::uint64_t>(exchange + 1);
  x *= 0x9e3779b97f4a7c15u;
  return static_cast<std::byte>(x >> 56);
}

// The `in` of rank `from`.
inline std::vector<std::byte> sent(Kind kind, int from, int ranks, std::size_t block,
                                   int exchange) {
  const bool apart = kind == Kind::kAllToAll;
  std::vector<std::byte> in(apart ? block * static_cast<std::size_t>(ranks) : block);
  for (std::size_t i = 0; i < in.size(); ++i)
    in[i] = byte_of(from, apart ? static_cast<int>(i / block) : kEveryone, exchange,
                    apart ? i % block : i);
  return in;
}

inline bool holds(std::span<const std::byte> block, int from, int to, int exchange) {
  for (std::size_t i = 0; i < block.size(); ++i)
    if (block[i] != byte_of(from, to, exchange, i)) return false;
  return true;
}

}  // namespace laconic
