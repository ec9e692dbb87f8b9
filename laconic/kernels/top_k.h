#pragma once

#include <cstddef>
#include <cstdint>

#include "laconic/kernels/integer.h"

// The largest elements of a block of at most 4096: 12-bit indices and 4-bit integers, with error
// feedback. Pure loops on spans: noexcept, no allocation, no threads. Pointers need no alignment.
//
// A block has `slots` places, 2*slots bytes: a stream of bits, from the lowest of byte 0 on, of
// `slots` indices of 12 bits, then `slots` codes of 4 bits, two's complement. Indices ascend.
// Places without an element come last, and all their bits are 0.
namespace laconic::kernels {

inline constexpr std::size_t kTopKBlock = 4096;  // elements
inline constexpr int kTopKBits = 4;              // of a code

constexpr std::size_t top_k_bytes(std::size_t slots) noexcept { return 2 * slots; }

inline std::size_t index_at(const std::uint8_t* places, std::size_t place) noexcept {
  const std::uint8_t* at = places + 3 * place / 2;
  const auto both = static_cast<unsigned>(at[0] | at[1] << 8);
  return both >> (place % 2 * 4) & 0xFFF;
}
inline int code_at(const std::uint8_t* places, std::size_t slots, std::size_t place) noexcept {
  const std::size_t at = 3 * slots + place;  // in half bytes
  return ((places[at / 2] >> (at % 2 * 4) & 0xF) ^ 8) - 8;
}
// Whether no element stands there: an index of 0 can only be the first.
inline bool is_free(const std::uint8_t* places, std::size_t place) noexcept {
  return place > 0 && index_at(places, place) == 0;
}

// The `slots` live elements of largest |p|, or all if there are fewer; of equal ones the first.
// Their codes are those of to_integers with the scale of `largest`, all others decode to 0: e = (p
// - C(p)) * gain, and 0 where live[k] == 0. `e` may be `p`. REQUIRES: p is finite; `largest` is the
// largest |p| of the live elements; 1 <= slots; count <= kTopKBlock.
void to_top_k(const float* p, const float* live, std::size_t count, std::size_t slots,
              float largest, float gain, float* e, std::uint8_t* places) noexcept;

// Elements [begin, begin + count) of q = (0 + code*scale over ranks in order) * factor + e (e null:
// + 0 is left out), measured as by measure_largest; e, live and q begin with the first of them. `q`
// is no other array. REQUIRES: ranks >= 1; indices ascend and are less than kTopKBlock.
void sum_top_k(const Integers* from, int ranks, std::size_t slots, float factor, const float* e,
               const float* live, std::size_t begin, std::size_t count, float* q,
               Lanes& lanes) noexcept;

// out = elements [begin, begin + count): code*scale, or 0.
void from_top_k(Integers from, std::size_t slots, std::size_t begin, std::size_t count,
                float* out) noexcept;

}  // namespace laconic::kernels
