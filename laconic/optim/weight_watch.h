#pragma once

#include <cstdint>
#include <span>

#include "laconic/core/hash.h"

namespace laconic::inline optim {

// Notices writes to weights between two steps.
class WeightWatch {
 public:
  explicit WeightWatch(std::span<const float> weights) : weights_(weights) {}

  void note() { hash_ = hash64(std::as_bytes(weights_)); }
  // Since note().
  bool written() const { return hash64(std::as_bytes(weights_)) != hash_; }

 private:
  std::span<const float> weights_;
  std::uint64_t hash_ = 0;
};

}  // namespace laconic::inline optim
