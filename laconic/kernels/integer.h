#pragma once

#include <cstddef>
#include <cstdint>

#include "laconic/kernels/arithmetic.h"
#include "laconic/kernels/terms.h"

// Integer codes with error feedback. Pure loops on spans: noexcept, no allocation, no threads.
// Pointers need no alignment. `bits` is 8, 4 or 2; codes are fields of so many bits, two's
// complement, element 0 in the lowest bits of byte 0. Whole words of 64 elements are read and
// written.
namespace laconic::kernels {

// p = a + e (e null: p = a), 0 where live[k] == 0 (live null: nowhere). Lane k % 16 becomes the
// largest |p| of its elements, ordered as integers: Inf and NaN lie above all others. `p` may be
// `a`.
void measure_largest(const float* a, const float* e, const float* live, std::size_t count, float* p,
                     Lanes& lanes) noexcept;

// The largest lane, in the same order.
float largest_of(const Lanes& lanes) noexcept;

// Codes of p and e = (p - C(p)) * gain. Where live[k] == 0: code 0 and e = 0; codes past `count` are
// 0. `e` may be `p`. REQUIRES: p is finite.
void to_integers(const float* p, const float* live, std::size_t count, int bits, float scale,
                 float gain, float* e, std::uint8_t* codes) noexcept;

// A run of blocks at once, the last one perhaps shorter: p = a + e; of each block the scale; codes,
// and left = (p - C(p)) * gain, as above. Ends before the first block whose |p| is not finite or
// whose scale is above `most`, and returns the number of elements before it. `left` may be `e` or
// a term. REQUIRES: `e` is not null; `block` is a multiple of 64; with two terms `live` is null.
std::size_t encode_integers(const Terms& a, const float* e, const float* live, std::size_t count,
                            std::size_t block, int bits, float most, float gain, float* left,
                            float* scales, std::uint8_t* codes) noexcept;

// One rank's coded block.
struct Integers {
  float scale;
  const std::uint8_t* codes;
};

// q = (sum over ranks in order of code*scale) * factor + e (e null: + 0 is left out), measured as by
// measure_largest. REQUIRES: ranks >= 1.
void sum_integers(const Integers* from, int ranks, int bits, float factor, const float* e,
                  const float* live, std::size_t count, float* q, Lanes& lanes) noexcept;

// out = code*scale.
void from_integers(Integers from, int bits, std::size_t count, float* out) noexcept;

}  // namespace laconic::kernels
