#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "laconic/optim/policy.h"

namespace laconic::plan {

// A published schedule: when 1-bit Adam and 0/1 Adam speak in a run of so many steps. `verified`:
// read in a publication, not recalled.
struct Recipe {
  const char* name;
  std::int64_t steps;
  std::int64_t freeze_step;           // 1-bit Adam
  std::int64_t variance_freeze_step;  // 0/1 Adam
  std::int64_t double_every;
  bool verified;
  std::int64_t variance_kappa = 16, max_interval = 16;

  Rounds one_bit_adam() const;
  Rounds zero_one_adam() const;
  // What 0/1 Adam saves of 1-bit Adam's, as fractions.
  double volume_reduction(double dense_bits, double coded_bits) const;
  double round_reduction() const;
};

// Of an optimizer with its default schedule in a run of so many steps. Throws
// Error(kInvalidArgument) for fewer than 10.
Rounds default_rounds(Algorithm algorithm, std::int64_t steps);

std::span<const Recipe> recipes() noexcept;
// Throws Error(kInvalidArgument) with the names that exist.
const Recipe& recipe(std::string_view name);

}  // namespace laconic::plan
