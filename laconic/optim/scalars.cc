#include "laconic/optim/scalars.h"

#include <numbers>

namespace laconic::inline optim {
namespace {

// high + low, about 106 bits; |low| is at most half a unit in the last place of high.
struct Wide {
  double high, low = 0;
};

// REQUIRES: |a| >= |b|.
Wide quick_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

Wide exact_sum(double a, double b) {
  const double sum = a + b, of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

// Without a fused multiply-add, which not every CPU has: each factor in two halves of 26 bits.
Wide exact_product(double a, double b) {
  constexpr double kSplit = 0x1p27 + 1;
  const double a_far = kSplit * a, b_far = kSplit * b;
  const double a_high = a_far - (a_far - a), b_high = b_far - (b_far - b);
  const double a_low = a - a_high, b_low = b - b_high;
  const double product = a * b;
  return {product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
}

Wide product(Wide a, Wide b) {
  const Wide p = exact_product(a.high, b.high);
  return quick_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

Wide quotient(Wide a, double b) {
  const double first = a.high / b;
  const Wide taken = exact_product(first, b);
  return quick_sum(first, ((a.high - taken.high) - taken.low + a.low) / b);
}

Wide difference(double a, Wide b) {
  const Wide d = exact_sum(a, -b.high);
  return quick_sum(d.high, d.low - b.low);
}

// 1 - s/(k(k+1))·(1 - s/((k+2)(k+3))·(…)) with s = y²: the cosine of y from k = 1 on, sin(y)/y from
// k = 2 on. Terms beyond 30 are below 2^-106 where |y| <= pi/4.
Wide series(Wide y, int first) {
  const Wide square = product(y, y);
  Wide sum{1};
  for (int k = first + 28; k >= first; k -= 2)
    sum = difference(1, quotient(product(square, sum), static_cast<double>(k) * (k + 1)));
  return sum;
}

}  // namespace

double power(double base, std::int64_t exponent) noexcept {
  Wide result{1};
  for (int bit = 62; bit >= 0; --bit) {
    result = product(result, result);
    if ((exponent >> bit & 1) != 0) result = product(result, {base});
  }
  return result.high + result.low;
}

double cosine(double angle) noexcept {
  constexpr double kPi = std::numbers::pi, kPiLow = 0x1.1a62633145c07p-53;
  // The difference is exact: the angle is between a half and twice the other.
  const bool obtuse = angle > kPi / 2;
  const Wide acute = obtuse ? quick_sum(kPi - angle, kPiLow) : Wide{angle};
  Wide result;
  if (acute.high <= kPi / 4) {
    result = series(acute, 1);
  } else {
    const Wide rest = exact_sum(kPi / 2 - acute.high, kPiLow / 2 - acute.low);
    result = product(rest, series(rest, 2));
  }
  const double value = result.high + result.low;
  return obtuse ? -value : value;
}

}  // namespace laconic::inline optim
