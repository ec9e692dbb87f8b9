#include "laconic/optim/lion_options.h"

namespace laconic::inline optim {
namespace {

using C = OptimizerConfig;

}  // namespace

std::vector<Option> lion_options() {
  return {option<&C::beta1>("beta1", kBelowOne, below_one,
                            "share of the momentum in what is stepped by, beside the gradient"),
          option<&C::beta2>("beta2", kBelowOne, below_one, "decay of the momentum", kByMethod)
              .otherwise("0.99")};
}

kernels::LionMoments lion_moments(const OptimizerConfig& config) {
  return {static_cast<float>(config.beta1), static_cast<float>(1 - config.beta1),
          static_cast<float>(config.beta2), static_cast<float>(1 - config.beta2)};
}

std::map<std::string, double> lion_rates() {
  return {{"resnet8", 3e-3},   {"resnet20", 3e-3},  {"resnet18", 3e-4},
          {"resnet50", 3e-4},  {"gpt2-mini", 3e-4}, {"gpt2", 2e-4},
          {"bert-mini", 3e-4}, {"bert-base", 3e-5}, {"bert-large", 3e-5}};
}

}  // namespace laconic::inline optim
