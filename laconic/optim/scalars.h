#pragma once

#include <cstdint>

// Powers and cosines of schedules and bias corrections. The C library's differ by CPU in their last
// bit; these are sums and products of doubles in a fixed order, the same on every CPU, and exactly
// rounded but for cases that one in 2^30 arguments meets, and below 2^-900.
namespace laconic::inline optim {

// base^exponent. REQUIRES: 0 <= base <= 1, exponent >= 0.
double power(double base, std::int64_t exponent) noexcept;

// REQUIRES: 0 <= angle <= the double next to pi.
double cosine(double angle) noexcept;

}  // namespace laconic::inline optim
