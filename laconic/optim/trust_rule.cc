#include "laconic/optim/trust_rule.h"

#include "laconic/core/error.h"

namespace laconic::inline optim {

std::vector<Option> with_trust_options(std::vector<Option> own) {
  using C = OptimizerConfig;
  own.push_back(option<&C::min_trust>("min_trust", kFiniteFromZero, finite_from_zero,
                                      "least ratio of a tensor's norm to its update's"));
  own.push_back(option<&C::max_trust>("max_trust", "a finite number >= min_trust", finite_from_zero,
                                      "largest ratio of a tensor's norm to its update's"));
  return own;
}

void check_trust(const OptimizerConfig& config) {
  if (config.min_trust > config.max_trust)
    fail(Code::kInvalidArgument, "min_trust = {} is above max_trust = {}: give a smaller one",
         config.min_trust, config.max_trust);
}

std::map<std::string, double> trust_rates() {
  return {{"resnet8", 3e-2},   {"resnet20", 3e-2},  {"resnet18", 1e-2},
          {"resnet50", 1e-2},  {"gpt2-mini", 1e-2}, {"gpt2", 1e-2},
          {"bert-mini", 1e-2}, {"bert-base", 2e-3}, {"bert-large", 2e-3}};
}

}  // namespace laconic::inline optim
