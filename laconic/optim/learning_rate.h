#pragma once

#include <cstdint>
#include <string>

namespace laconic::inline optim {

// A learning rate for every step t = 1, 2, …: a linear rise over `warmup` steps to `peak` (peak at
// t = warmup), then by `decay`, never below `least`; linear and cosine reach it at `total`.
struct LearningRate {
  enum class Decay : std::uint8_t { kConstant, kLinear, kCosine, kStaircase };

  double peak = 1e-3, least = 0;
  std::int64_t warmup = 0, total = 0;  // total is needed by kLinear and kCosine
  Decay decay = Decay::kConstant;
  double factor = 0.99;  // kStaircase: times factor after every `every` steps since the warm-up
  std::int64_t every = 520;

  double operator()(std::int64_t step) const;
};

// Throws Error(kInvalidArgument) naming what is wrong.
LearningRate validated(LearningRate schedule);

// "constant", "linear", "cosine", "staircase"; throws with the nearest name.
LearningRate::Decay parse_decay(const std::string& text);

}  // namespace laconic::inline optim
