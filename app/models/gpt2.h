#pragma once

#include "app/models/layers.h"
#include "app/models/model.h"

namespace laconic::app::models {

// Radford et al. 2019: norms before each part, GELU in its tanh form, one table of tokens for input
// and output. Names and layouts are those of the published files. REQUIRES: no size is 0.
std::shared_ptr<Network> make_gpt2(const ModelConfig& config, const data::DataShape& shape,
                                   Draw& draw);

}  // namespace laconic::app::models
