#include "laconic/plan/recipes.h"

#include <string>

#include "laconic/core/error.h"
#include "laconic/optim/method.h"

namespace laconic::plan {
namespace {

constexpr Recipe kRecipes[] = {
    {"bert-base", 118'000, 16'000, 12'500, 32'678, true},
    {"bert-large", 152'000, 23'000, 12'500, 32'678, true},
    {"gpt2", 300'000, 80'000, 80'000, 80'000, false},
    {"imagenet", 450'450, 50'050, 50'050, 50'050, false},
};

}  // namespace

Rounds Recipe::every_step() const { return freeze_rounds(steps, freeze_step); }

Rounds Recipe::local_steps() const {
  return interval_rounds(steps, {variance_kappa, variance_freeze_step},
                         {variance_freeze_step, double_every, max_interval});
}

Rounds Recipe::rounds(const std::string& algorithm) const {
  if (algorithm == kEveryStep) return every_step();
  if (algorithm == kLocalSteps) return local_steps();
  return default_rounds(algorithm, steps);
}

double Recipe::volume_reduction(double dense_bits, double coded_bits) const {
  return 1 - local_steps().bits_per_parameter_per_step(dense_bits, coded_bits) /
                 every_step().bits_per_parameter_per_step(dense_bits, coded_bits);
}

double Recipe::round_reduction() const {
  return 1 -
         static_cast<double>(local_steps().rounds()) / static_cast<double>(every_step().rounds());
}

Rounds default_rounds(const std::string& algorithm, std::int64_t steps) {
  return rounds_of({.algorithm = algorithm}, steps);
}

Rounds rounds_of(OptimizerConfig config, std::int64_t steps) {
  constexpr std::int64_t kFewest = 10;  // a schedule needs some
  if (steps < kFewest)
    fail(Code::kInvalidArgument, "a run of {} steps: give at least {}, e.g. 100000", steps,
         kFewest);
  config.total_steps = steps;
  return method_named(config.algorithm).rounds(validated(config), steps);
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
