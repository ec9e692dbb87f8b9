#pragma once

#include <cstdint>
#include <string>

#include "laconic/optim/config.h"

namespace laconic::app::training {

// What a run takes where nothing was said.
struct Preset {
  std::int64_t steps = 0, batch = 0;  // batch is a rank's
};

// Error(kInvalidArgument) with the nearest model name.
Preset preset_of(const std::string& model);

// The learning rate found best for this model and optimizer with the same small budget for all
// (docs/results.md says how).
double tuned_lr(const std::string& model, Algorithm algorithm);

}  // namespace laconic::app::training
