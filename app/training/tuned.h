#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace laconic::app::training {

// Defaults of a run that sets neither.
struct Preset {
  std::int64_t steps = 0, batch = 0;  // batch: per rank
};

// Error(kInvalidArgument) with the nearest model name.
Preset preset_of(const std::string& model);

// The learning rate found best for this model and optimizer with the same small budget for all
// (docs/explanation/results.md has the method). An optimizer without one of its own takes AdamW's.
// Throws as above.
double tuned_lr(const std::string& model, std::string_view optimizer);

}  // namespace laconic::app::training
