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

// As `measure` and `code` with p = a + e. The sum is made twice: to keep it costs more than to add
// again what is still in the cache. `left` may be a term or `e`. Where `a` has two terms, `live` is
// null, and measure_sum returns false when what they bound is too large.
bool measure_sum(const Terms& a, const float* e, const float* live, std::size_t count, Norm norm,
                 Lanes& lanes) noexcept;
void code_sum(const Terms& a, const float* e, const float* live, std::size_t count, float scale,
              float gain, float* left, std::uint8_t* bits) noexcept;

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
