#pragma once

#include <span>
#include <vector>

#include "laconic/device/device.h"

namespace laconic::inline optim {

// Measures and scales a gradient on its device.
class Clipping {
 public:
  Clipping(Device& device, std::span<float> gradient);

  // Sum of squares of elements [begin, begin + count), over the tiles that are finite; *bad: some
  // tile is not.
  double squares(std::size_t begin, std::size_t count, bool* bad);
  // Scales a gradient of this norm down to `most`.
  void clip(double norm, double most);

 private:
  Device& device_;
  std::span<float> gradient_;
  std::vector<float> sums_;
};

}  // namespace laconic::inline optim
