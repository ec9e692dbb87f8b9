#include <gtest/gtest.h>

#include <ostream>

#include "laconic/optim/optimizer.h"
#include "laconic/optim/policy.h"
#include "laconic/wire/chunk.h"
#include "tests/support/ranks.h"

// The published recipes with all their steps, on vectors of 128: a word for each of two ranks.
namespace laconic::testing {
namespace {

struct Recipe {
  const char* name;
  std::int64_t steps, one_bit_freeze, variance_freeze, double_every, kappa = 16;
};

constexpr Recipe kRecipes[] = {
    {"BertBase", 118'000, 16'000, 12'500, 32'678},
    {"BertLarge", 152'000, 23'000, 12'500, 32'678},
    {"Gpt2", 300'000, 80'000, 80'000, 80'000},
    {"ImageNet", 450'450, 50'050, 50'050, 50'050},
};

constexpr std::size_t kWeights = 128;

Totals totals_of(const OptimizerConfig& config, std::int64_t steps, int ranks) {
  Totals totals;
  run_ranks(ranks, [&](Transport& world) {
    std::vector<float> weights(kWeights), gradient(kWeights, 1e-3F);
    const auto optimizer = make_optimizer(config, {weights, gradient, {}, {}}, world);
    for (std::int64_t t = 1; t <= steps; ++t) {
      gradient[static_cast<std::size_t>(t) % kWeights] *= -1;
      optimizer->step(1e-4);
    }
    if (world.rank() == 0) totals = optimizer->totals();
  });
  return totals;
}

void expect_counted(const OptimizerConfig& config, const Rounds& rounds, int ranks) {
  const Totals counted = totals_of(config, rounds.steps, ranks);
  EXPECT_EQ(counted.steps, rounds.steps);
  EXPECT_EQ(counted.dense, rounds.dense);
  EXPECT_EQ(counted.coded, rounds.coded);
  EXPECT_EQ(counted.rounds(), rounds.rounds());
  EXPECT_EQ(counted.silent, rounds.steps - rounds.rounds());
  // 2(n-1)/n*4P dense; 2(n-1) messages coded: 64 bits, one scale, a header.
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t dense = 2 * (n - 1) * 4 * kWeights / n;
  const std::uint64_t coded = 2 * (n - 1) * (8 + 4 + wire::kHeaderSize);
  EXPECT_EQ(counted.bytes, dense * static_cast<std::uint64_t>(rounds.dense) +
                               coded * static_cast<std::uint64_t>(rounds.coded));
}

void PrintTo(const Recipe& recipe, std::ostream* out) { *out << recipe.name; }

// Where steps are very many, one rank counts their rounds without exchanging anything.
int ranks_of(const Recipe& recipe) { return recipe.steps > 200'000 ? 1 : 2; }

class Volume : public ::testing::TestWithParam<Recipe> {};

TEST_P(Volume, OfZeroOneAdamIsWhatItsPoliciesSay) {
  const Recipe& recipe = GetParam();
  OptimizerConfig config;
  config.total_steps = recipe.steps;
  config.variance_freeze_step = recipe.variance_freeze;
  config.double_every = recipe.double_every;
  const VarianceSteps variance(recipe.kappa, recipe.variance_freeze);
  const Intervals intervals(recipe.variance_freeze, recipe.double_every, config.max_interval);
  expect_counted(config, interval_rounds(recipe.steps, variance, intervals), ranks_of(recipe));
}

TEST_P(Volume, OfOneBitAdamIsWhatItsFreezeStepSays) {
  const Recipe& recipe = GetParam();
  OptimizerConfig config;
  config.algorithm = "one-bit-adam";
  config.freeze_step = recipe.one_bit_freeze;
  expect_counted(config, freeze_rounds(recipe.steps, recipe.one_bit_freeze), ranks_of(recipe));
}

INSTANTIATE_TEST_SUITE_P(Published, Volume, ::testing::ValuesIn(kRecipes),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace laconic::testing
