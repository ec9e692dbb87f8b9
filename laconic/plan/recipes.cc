#include "laconic/plan/recipes.h"

#include <string>

#include "laconic/core/error.h"

namespace laconic::plan {
namespace {

constexpr Recipe kRecipes[] = {
    {"bert-base", 118'000, 16'000, 12'500, 32'678, true},
    {"bert-large", 152'000, 23'000, 12'500, 32'678, true},
    {"gpt2", 300'000, 80'000, 80'000, 80'000, false},
    {"imagenet", 450'450, 50'050, 50'050, 50'050, false},
};

}  // namespace

Rounds Recipe::one_bit_adam() const { return one_bit_adam_rounds(steps, freeze_step); }

Rounds Recipe::zero_one_adam() const {
  return zero_one_adam_rounds(steps, {variance_kappa, variance_freeze_step},
                              {variance_freeze_step, double_every, max_interval});
}

double Recipe::volume_reduction(double dense_bits, double coded_bits) const {
  return 1 - zero_one_adam().bits_per_parameter_per_step(dense_bits, coded_bits) /
                 one_bit_adam().bits_per_parameter_per_step(dense_bits, coded_bits);
}

double Recipe::round_reduction() const {
  return 1 - static_cast<double>(zero_one_adam().rounds()) /
                 static_cast<double>(one_bit_adam().rounds());
}

Rounds default_rounds(Algorithm algorithm, std::int64_t steps) {
  constexpr std::int64_t kFewest = 10;  // a schedule needs some
  if (steps < kFewest)
    fail(Code::kInvalidArgument, "a run of {} steps: give at least {}, e.g. 100000", steps,
         kFewest);
  const OptimizerConfig config = validated({.algorithm = algorithm, .total_steps = steps});
  switch (algorithm) {
    case Algorithm::kOneBitAdam: return one_bit_adam_rounds(steps, config.freeze_step);
    case Algorithm::kZeroOneAdam:
      return zero_one_adam_rounds(
          steps, {config.variance_kappa, config.variance_freeze_step},
          {config.variance_freeze_step, config.double_every, config.max_interval});
    case Algorithm::kBirder: return {.steps = steps, .dense = 0, .coded = steps};
    default: return {.steps = steps, .dense = steps, .coded = 0};
  }
}

std::span<const Recipe> recipes() noexcept { return kRecipes; }

const Recipe& recipe(std::string_view name) {
  std::string names;
  for (const Recipe& one : kRecipes) {
    if (name == one.name) return one;
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  fail(Code::kInvalidArgument, "no recipe named {}: there are {}", name, names);
}

}  // namespace laconic::plan
