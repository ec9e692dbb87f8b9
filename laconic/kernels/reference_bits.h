#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

// Arrays of bits, for the scalar loops.
namespace laconic::kernels::reference {

inline bool bit_of(const std::uint8_t* bits, std::size_t k) {
  return (bits[k / 8] >> (k % 8) & 1) != 0;
}

inline void set_bit(std::uint8_t* bits, std::size_t k) {
  bits[k / 8] = static_cast<std::uint8_t>(bits[k / 8] | 1U << (k % 8));
}

inline std::size_t words_of(std::size_t count) { return (count + 63) / 64; }

inline void clear_words(std::uint8_t* bits, std::size_t words) { std::fill_n(bits, words * 8, 0); }

// The count of element k, from bit planes.
inline int count_of(const std::uint8_t* counts, int planes, std::size_t k) {
  const std::uint8_t* word = counts + k / 64 * static_cast<std::size_t>(planes) * 8;
  int count = 0;
  for (int plane = 0; plane < planes; ++plane)
    count += static_cast<int>(bit_of(word, static_cast<std::size_t>(plane) * 64 + k % 64)) << plane;
  return count;
}

}  // namespace laconic::kernels::reference
