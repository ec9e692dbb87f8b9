#pragma once

#include <cstddef>

namespace laconic::kernels {

// What must not be above kLargestGradient, for a block to be good: the second array, or the sum.
enum class Bounded : unsigned char { kSecond, kSum };

// What a rank adds to its residual: a, or, with a second array, of_a*a + of_b*b, each operation
// rounded: a momentum (beta1*m + (1-beta1)*g), a displacement (1*x_sync + -1*x). Who reads both has
// no need of memory for their sum.
struct Terms {
  // NOLINTNEXTLINE(google-explicit-constructor): one array is the common case
  Terms(const float* a) noexcept : a(a) {}
  Terms(const float* a, float of_a, const float* b, float of_b, Bounded bounded) noexcept
      : a(a), b(b), of_a(of_a), of_b(of_b), bounded(bounded) {}

  Terms from(std::size_t element) const noexcept {
    return b ? Terms(a + element, of_a, b + element, of_b, bounded) : Terms(a + element);
  }

  const float* a;
  const float* b = nullptr;
  float of_a = 1, of_b = 0;
  Bounded bounded = Bounded::kSum;  // of two arrays; of one nothing is asked
};

}  // namespace laconic::kernels
