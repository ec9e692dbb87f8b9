#include "laconic/optim/clipping.h"

namespace laconic::inline optim {

Clipping::Clipping(Device& device, std::span<float> gradient)
    : device_(device), gradient_(gradient), sums_((gradient.size() + kTile - 1) / kTile) {}

double Clipping::squares(std::size_t begin, std::size_t count, bool* bad) {
  if (count == 0) return 0;
  device_.run(TileSums{gradient_.data() + begin, count, kernels::Norm::kL2, true, sums_.data()});
  double total = 0;
  for (const float sum : std::span(sums_).first((count + kTile - 1) / kTile)) {
    if (sum < 0)
      *bad = true;
    else
      total += static_cast<double>(sum);
  }
  return total;
}

void Clipping::clip(double norm, double most) {
  const double factor = most / (norm + 1e-6);
  if (factor < 1)
    device_.run(Scaling{gradient_.data(), gradient_.size(), static_cast<float>(factor)});
}

}  // namespace laconic::inline optim
