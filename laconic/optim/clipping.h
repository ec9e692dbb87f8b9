#pragma once

#include <span>
#include <vector>

#include "laconic/device/device.h"

namespace laconic::inline optim {

// Measures and scales a gradient on its device.
class Clipping {
 public:
  Clipping(Device& device, std::span<float> gradient);

  // Sum of squares over the tiles that are finite; *bad: some tile is not.
  double squares(bool* bad);
  // Scales a gradient of this norm down to `most`.
  void clip(double norm, double most);

 private:
  Device& device_;
  std::span<float> gradient_;
  std::vector<float> sums_;
};

}  // namespace laconic::inline optim
