#pragma once

#include <span>

namespace laconic::inline optim {

// Sum of squares over the tiles that are finite; *bad: some tile is not.
double squares_of(std::span<const float> gradient, bool* bad);

// Scales a gradient of this norm down to `most`.
void clip(std::span<float> gradient, double norm, double most);

}  // namespace laconic::inline optim
