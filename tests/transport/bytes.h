#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "laconic/transport/transport.h"
#include "tests/support/thrown.h"

namespace laconic {

inline constexpr int kEveryone = -1;

// Calls use(offset, bytes, length) for the words of what `from` sends to `to` in exchange number
// `exchange`.
template <typename Use>
void each_word(int from, int to, int exchange, std::size_t bytes, Use use) {
  const std::uint64_t seed = 1000003u * static_cast<std::uint64_t>(from + 1) +
                             7919u * static_cast<std::uint64_t>(to + 2) +
                             104729u * static_cast<std::uint64_t>(exchange + 1);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = (i + seed) * 0x9e3779b97f4a7c15u;
    use(i, &word, std::min<std::size_t>(8, bytes - i));
  }
}

// The `in` of rank `from`.
inline std::vector<std::byte> sent(Kind kind, int from, int ranks, std::size_t block,
                                   int exchange) {
  const int blocks = kind == Kind::kAllToAll ? ranks : 1;
  std::vector<std::byte> in(block * static_cast<std::size_t>(blocks));
  for (int to = 0; to < blocks; ++to) {
    std::byte* out = in.data() + block * static_cast<std::size_t>(to);
    each_word(from, kind == Kind::kAllToAll ? to : kEveryone, exchange, block,
              [&](std::size_t i, const void* word, std::size_t length) {
                std::memcpy(out + i, word, length);
              });
  }
  return in;
}

inline bool holds(std::span<const std::byte> block, int from, int to, int exchange) {
  bool equal = true;
  each_word(from, to, exchange, block.size(),
            [&](std::size_t i, const void* word, std::size_t length) {
              equal = equal && std::memcmp(block.data() + i, word, length) == 0;
            });
  return equal;
}

}  // namespace laconic
