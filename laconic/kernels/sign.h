#pragma once

#include <cstddef>
#include <cstdint>

#include "laconic/kernels/arithmetic.h"
#include "laconic/kernels/terms.h"

// Sign coding with error feedback. Pure loops on spans: noexcept, no allocation, no threads.
// Pointers need no alignment; elements of a word of 64 are bits 0 to 63 of 8 little-endian bytes, 1
// means negative.
namespace laconic::kernels {

// Adds the lanes in a tree: j with j+8, then +4, +2, +1.
float fold(const Lanes& lanes) noexcept;

// s = sqrt(sum/count) for L2, sum/count for L1; 0 when count is 0.
float scale_of(float sum, std::size_t count, Norm norm) noexcept;

// p = a + e (e null: p = a); adds p*p (L2) or |p| (L1) to `lanes`. Where live[k] == 0 (live null:
// nowhere) p = 0. `p` may be `a`. Lane j gets elements j, j+16, …, so a sum may go on over calls of
// a multiple of 16 elements.
void measure(const float* a, const float* e, const float* live, std::size_t count, Norm norm,
             float* p, Lanes& lanes) noexcept;

// bit = sign bit of p; e = (p - copysign(scale, p)) * gain. Where live[k] == 0: bit 0 and e = 0.
// Writes whole words of bits; those past `count` are 0. `e` may be `p`.
void code(const float* p, const float* live, std::size_t count, float scale, float gain, float* e,
          std::uint8_t* bits) noexcept;

// A run of blocks at once, the last one perhaps shorter: p = a + e; of each block the scale, and bits
// and `left` as `code` makes them. The sum is made twice: to keep it costs more than to add again
// what is still in the cache. Ends before the first block whose sum is not finite, or whose terms
// are out of their bound, and returns the number of elements before it; the bits of that block may
// have been written. `left` may be `e` or a term. REQUIRES: `e` is not null; `block` is a multiple
// of 64; with two terms `live` is null.
std::size_t encode_signs(const Terms& a, const float* e, const float* live, std::size_t count,
                         std::size_t block, Norm norm, float gain, float* left, float* scales,
                         std::uint8_t* bits) noexcept;

// One rank's coded block.
struct Coded {
  float scale;
  const std::uint8_t* bits;
};

// q = (sum over codes in order of copysign(scale, bit)) * factor + e, measured as by `measure`.
// REQUIRES: codes >= 1.
void serve(const Coded* coded, int codes, float factor, const float* e, const float* live,
           std::size_t count, Norm norm, float* q, Lanes& lanes) noexcept;

// out = copysign(scale, bit).
void decode(Coded coded, std::size_t count, float* out) noexcept;

// How many of live[0..count) are not 0.
std::size_t count_live(const float* live, std::size_t count) noexcept;

}  // namespace laconic::kernels
