#include "laconic/optim/clipping.h"

#include <algorithm>

#include "laconic/device/pass.h"
#include "laconic/kernels/dense.h"

namespace laconic::inline optim {

double squares_of(std::span<const float> gradient, bool* bad) {
  double total = 0;
  for (std::size_t at = 0; at < gradient.size(); at += kTile) {
    const std::size_t n = std::min(kTile, gradient.size() - at);
    const float* g = gradient.data() + at;
    if (kernels::all_finite(g, n))
      total += static_cast<double>(kernels::sum_of_squares(g, n));
    else
      *bad = true;
  }
  return total;
}

void clip(std::span<float> gradient, double norm, double most) {
  const double factor = most / (norm + 1e-6);
  if (factor < 1) kernels::scale(gradient.data(), gradient.size(), static_cast<float>(factor));
}

}  // namespace laconic::inline optim
