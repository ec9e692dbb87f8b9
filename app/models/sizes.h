#pragma once

#include <cstdint>
#include <string>

namespace laconic::app::models {

// Sizes; 0 (or a negative dropout) takes the default of the name.
struct ModelConfig {
  std::string name = "resnet20";
  std::int64_t width = 0;  // channels of the first stage, or the hidden size
  std::int64_t depth = 0;  // blocks per stage, or layers
  std::int64_t heads = 0;  // transformers
  double dropout = -1;
  std::int64_t vocabulary = 0;  // at least the data's tokens; 0: as many
};

}  // namespace laconic::app::models
