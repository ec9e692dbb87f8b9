#pragma once

#include <cstddef>
#include <cstdint>

#include "laconic/kernels/arithmetic.h"

namespace laconic::kernels {

// acc += a.
void add(const float* a, std::size_t count, float* acc) noexcept;
// a *= factor.
void scale(float* a, std::size_t count, float factor) noexcept;
// out = (in[0] + in[1] + …) * factor, in this order. REQUIRES: inputs >= 1. `out` may be one of the
// inputs.
void sum(const float* const* in, int inputs, std::size_t count, float factor, float* out) noexcept;
// The same of bf16 values, added in fp32.
void sum_bf16(const std::uint16_t* const* in, int inputs, std::size_t count, float factor,
              float* out) noexcept;
// The same where one of `in` is null: `values`, rounded to bf16, stand for it. The mean, rounded, goes
// to `out` and to `values`.
void mean_bf16(const std::uint16_t* const* in, int inputs, std::size_t count, float factor,
               float* values, std::uint16_t* out) noexcept;
// e = keep*e + r, 0 where live[k] == 0 (live null: nowhere).
void blend(float keep, const float* r, const float* live, std::size_t count, float* e) noexcept;
// Round to nearest, ties to even; NaN stays NaN (quiet).
void to_bf16(const float* in, std::size_t count, std::uint16_t* out) noexcept;
void from_bf16(const std::uint16_t* in, std::size_t count, float* out) noexcept;
// Every |g| <= kLargestGradient (so false for NaN).
bool all_finite(const float* g, std::size_t count) noexcept;
// In 16 lanes, folded. REQUIRES: count <= 4096 for the specified rounding.
float sum_of_squares(const float* a, std::size_t count) noexcept;

}  // namespace laconic::kernels
