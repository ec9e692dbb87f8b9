#include "laconic/optim/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/support/refusal.h"

namespace laconic {
namespace {

using testing::refusal_of;
using testing::says;
using Decay = LearningRate::Decay;

TEST(LearningRate, RisesLinearlyToThePeakAtTheEndOfTheWarmUp) {
  for (const Decay decay : {Decay::kConstant, Decay::kLinear, Decay::kCosine, Decay::kStaircase}) {
    const LearningRate lr =
        validated({.peak = 0.3, .least = 0.1, .warmup = 10, .total = 100, .decay = decay});
    EXPECT_DOUBLE_EQ(lr(1), 0.03);
    EXPECT_DOUBLE_EQ(lr(5), 0.15);
    EXPECT_EQ(lr(10), 0.3);
  }
}

TEST(LearningRate, StaysAtThePeakWhenConstant) {
  const LearningRate lr = validated({.peak = 0.3});
  EXPECT_EQ(lr(1), 0.3);
  EXPECT_EQ(lr(1'000'000), 0.3);
}

TEST(LearningRate, FallsLinearlyToTheLeastAndStays) {
  const LearningRate lr =
      validated({.peak = 1, .least = 0.25, .warmup = 100, .total = 200, .decay = Decay::kLinear});
  EXPECT_DOUBLE_EQ(lr(101), 0.9925);
  EXPECT_DOUBLE_EQ(lr(150), 0.625);
  EXPECT_EQ(lr(200), 0.25);
  EXPECT_EQ(lr(300), 0.25);
}

TEST(LearningRate, FallsByACosineToTheLeastAndStays) {
  const LearningRate lr =
      validated({.peak = 1, .least = 0.5, .warmup = 0, .total = 90, .decay = Decay::kCosine});
  EXPECT_DOUBLE_EQ(lr(30), 0.875);
  EXPECT_DOUBLE_EQ(lr(45), 0.75);
  EXPECT_DOUBLE_EQ(lr(60), 0.625);
  EXPECT_EQ(lr(90), 0.5);
  EXPECT_EQ(lr(1000), 0.5);
}

TEST(LearningRate, TellsThePublishedRecipeOfBert) {
  const LearningRate lr = validated(
      {.peak = 4e-4, .warmup = 12'500, .decay = Decay::kStaircase, .factor = 0.99, .every = 520});
  EXPECT_DOUBLE_EQ(lr(1), 4e-4 / 12'500);
  EXPECT_EQ(lr(12'500), 4e-4);
  EXPECT_EQ(lr(12'500 + 520), 4e-4);
  EXPECT_DOUBLE_EQ(lr(12'500 + 521), 4e-4 * 0.99);
  EXPECT_DOUBLE_EQ(lr(12'500 + 1040), 4e-4 * 0.99);
  EXPECT_DOUBLE_EQ(lr(12'500 + 1041), 4e-4 * 0.99 * 0.99);
  EXPECT_DOUBLE_EQ(lr(118'000), 4e-4 * std::pow(0.99, 202));
}

TEST(LearningRate, StairsEndAtTheLeast) {
  const LearningRate lr =
      validated({.peak = 1, .least = 0.2, .decay = Decay::kStaircase, .factor = 0.5, .every = 10});
  EXPECT_EQ(lr(10), 1);
  EXPECT_EQ(lr(11), 0.5);
  EXPECT_EQ(lr(30), 0.25);
  EXPECT_EQ(lr(31), 0.2);
  EXPECT_EQ(lr(1'000'000'000), 0.2);
}

TEST(LearningRate, SaysWhatIsWrong) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<LearningRate, const char*> cases[] = {
      {{.peak = -1}, "peak learning rate is -1"},
      {{.peak = nan}, "peak learning rate is nan"},
      {{.peak = 1, .least = 2}, "least learning rate is 2"},
      {{.peak = 1, .least = nan}, "least learning rate is nan"},
      {{.warmup = -3}, "warm-up of -3"},
      {{.total = -4}, "-4 steps in total"},
      {{.decay = Decay::kLinear}, "linear decay needs a total"},
      {{.warmup = 10, .total = 10, .decay = Decay::kCosine}, "cosine decay needs a total"},
      {{.decay = Decay::kStaircase, .factor = 1.5}, "factor 1.5"},
      {{.decay = Decay::kStaircase, .factor = nan}, "factor nan"},
      {{.decay = Decay::kStaircase, .every = 0}, "stairs of 0 steps"},
      {{.decay = static_cast<Decay>(9)}, "number 9"},
  };
  for (const auto& [schedule, text] : cases) {
    EXPECT_TRUE(says(refusal_of([&] { validated(schedule); }), {text}));
  }
}

TEST(LearningRate, DecaysHaveNames) {
  EXPECT_EQ(parse_decay("constant"), Decay::kConstant);
  EXPECT_EQ(parse_decay("linear"), Decay::kLinear);
  EXPECT_EQ(parse_decay("Cosine"), Decay::kCosine);
  EXPECT_EQ(parse_decay("staircase"), Decay::kStaircase);
  EXPECT_EQ(refusal_of([] { parse_decay("cosin"); }),
            "no decay \"cosin\", did you mean \"cosine\"? There are constant, linear, cosine, "
            "staircase");
}

}  // namespace
}  // namespace laconic
