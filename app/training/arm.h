#pragma once

#include <string_view>

#include "laconic/optim/config.h"

namespace laconic::app::training {

// Takes the first word off `arm`, whose words are joined by colons.
std::string_view next_word(std::string_view& arm);

// The method of an arm: "adamw-bf16", "adamw:codec=int4:feedback=ema". Leaves its options in `arm`.
void set_method(OptimizerConfig& config, std::string_view& arm);

// The options of an arm: "codec=int4:feedback=ema". Throws Error(kInvalidArgument) with an example.
void set_options(OptimizerConfig& config, std::string_view options);

}  // namespace laconic::app::training
