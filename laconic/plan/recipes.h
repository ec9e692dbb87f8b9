#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "laconic/optim/policy.h"

namespace laconic::plan {

// The methods that published schedules are of.
inline constexpr const char* kEveryStep = "one-bit-adam";
inline constexpr const char* kLocalSteps = "zero-one-adam";

// A published schedule of the two one-bit methods in a run of so many steps. `verified`: read in a
// publication, not recalled.
struct Recipe {
  const char* name;
  std::int64_t steps;
  std::int64_t freeze_step;           // of the method that exchanges on every step
  std::int64_t variance_freeze_step;  // of the one with local steps, as what follows
  std::int64_t double_every;
  bool verified;
  std::int64_t variance_kappa = 16, max_interval = 16;

  Rounds every_step() const;   // of kEveryStep
  Rounds local_steps() const;  // of kLocalSteps
  // Of any method: published, or its default schedule in as many steps.
  Rounds rounds(const std::string& algorithm) const;
  // What local steps save, as fractions.
  double volume_reduction(double dense_bits, double coded_bits) const;
  double round_reduction() const;
};

// Of a method with its default schedule in a run of so many steps. Throws
// Error(kInvalidArgument) for fewer than 10.
Rounds default_rounds(const std::string& algorithm, std::int64_t steps);
// The same with options of its own.
Rounds rounds_of(OptimizerConfig config, std::int64_t steps);

std::span<const Recipe> recipes() noexcept;
// Throws Error(kInvalidArgument) with the names that exist.
const Recipe& recipe(std::string_view name);

}  // namespace laconic::plan
