#pragma once

#include <map>
#include <string>
#include <vector>

#include "laconic/optim/option.h"

namespace laconic::inline optim {

// Of methods that step by the sign of a mixture of momentum and gradient.

// beta1 of the mixture, beta2 of the momentum.
std::vector<Option> lion_options();
kernels::LionMoments lion_moments(const OptimizerConfig& config);
// A third of AdamW's rates; not tuned.
std::map<std::string, double> lion_rates();

}  // namespace laconic::inline optim
