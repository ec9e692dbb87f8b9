#include "laconic/optim/policy.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "laconic/core/error.h"

namespace laconic {
namespace {

constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();

// The recurrence as it is written.
std::set<std::int64_t> written_out(std::int64_t kappa, std::int64_t freeze) {
  std::set<std::int64_t> steps;
  std::int64_t k = 1;
  for (std::int64_t j = 0; k <= freeze; ++j) {
    steps.insert(k);
    k += std::int64_t{1} << (j / kappa);
  }
  return steps;
}

TEST(VarianceSteps, FollowTheRecurrence) {
  for (const std::int64_t kappa : {1, 2, 3, 7, 16, 1000}) {
    for (const std::int64_t freeze : {1, 2, 17, 100, 5000}) {
      const VarianceSteps steps(kappa, freeze);
      const std::set<std::int64_t> expected = written_out(kappa, freeze);
      for (std::int64_t t = -2; t <= freeze + 100; ++t)
        ASSERT_EQ(steps.contains(t), expected.contains(t)) << kappa << " " << freeze << " " << t;
      ASSERT_EQ(steps.count(), std::ssize(expected)) << kappa << " " << freeze;
    }
  }
}

TEST(VarianceSteps, AreAsManyAsPublished) {
  const VarianceSteps steps(16, kFar);
  std::int64_t count = 0;
  for (std::int64_t t = 1; t <= 300'000; ++t) {
    count += steps.contains(t);
    if (t == 1'000) {
      EXPECT_EQ(count, 96);
    } else if (t == 12'500) {
      EXPECT_EQ(count, 153);
    } else if (t == 50'050) {
      EXPECT_EQ(count, 185);
    }
  }
  EXPECT_EQ(count, 227);
}

TEST(VarianceSteps, DoNotOverflow) {
  EXPECT_FALSE(VarianceSteps(16, kFar).contains(kFar));
  EXPECT_TRUE(VarianceSteps(kFar, kFar).contains(kFar));
  EXPECT_TRUE(VarianceSteps(1, kFar).contains(std::int64_t{1} << 62));
}

TEST(Intervals, DoubleAfterTheFreezeUpToTheMost) {
  const Intervals intervals(100, 10, 16);
  const auto at = [&](std::int64_t t) { return intervals.at(t, 1, 1); };
  EXPECT_EQ(at(1), 1);
  EXPECT_EQ(at(100), 1);
  EXPECT_EQ(at(110), 1);
  EXPECT_EQ(at(111), 2);
  EXPECT_EQ(at(120), 2);
  EXPECT_EQ(at(121), 4);
  EXPECT_EQ(at(140), 8);
  EXPECT_EQ(at(141), 16);
  EXPECT_EQ(at(151), 16);
  EXPECT_EQ(at(kFar), 16);
  EXPECT_EQ(Intervals(100, 10, 12).at(141, 1, 1), 12);
  EXPECT_EQ(Intervals(0, 1, 1).at(50, 1, 1), 1);
}

TEST(Intervals, SyncsAreWithinTheirBounds) {
  for (const std::int64_t every : {1, 7, 60, 1000})
    for (const std::int64_t most : {1, 6, 16})
      for (const std::int64_t steps : {1, 50, 333, 2000}) {
        const std::int64_t freeze = 40;
        const Rounds rounds = interval_rounds(steps, {1, freeze}, {freeze, every, most});
        const std::int64_t before =
            interval_rounds(std::min(steps, freeze), {1, freeze}, {freeze, every, most}).coded;
        const auto [least, largest] = Intervals(freeze, every, most).syncs_after_freeze(steps);
        EXPECT_LE(least, rounds.coded - before + 1) << every << " " << most << " " << steps;
        EXPECT_GE(largest, rounds.coded - before) << every << " " << most << " " << steps;
        EXPECT_LE(largest - least, 8);
      }
}

TEST(Intervals, AVolumeIsThatOfTheRounds) {
  for (const std::int64_t exact : {1, 4, 31})
    for (const VarianceSteps& variance : {VarianceSteps(4, 300), VarianceSteps(16, 150)})
      for (const std::int64_t every : {1, 7, 100, 850}) {
        const Intervals intervals(variance.freeze(), every, 16);
        const Rounds rounds = interval_rounds(1000, variance, intervals);
        const auto [least, most] = volume(1000, exact, variance, intervals);
        EXPECT_LE(least, exact * rounds.dense + rounds.coded + 1) << exact << " " << every;
        EXPECT_GE(most, exact * rounds.dense + rounds.coded) << exact << " " << every;
        EXPECT_LE(most - least, 8);
      }
}

TEST(Intervals, FollowTheLearningRateWhenAuto) {
  const Intervals intervals(100, kAuto, 16);
  const auto at = [&](double lr) { return intervals.at(101, lr, 0.8); };
  EXPECT_EQ(at(0.8), 1);
  EXPECT_EQ(at(0.41), 1);
  EXPECT_EQ(at(0.4), 2);
  EXPECT_EQ(at(0.21), 2);
  EXPECT_EQ(at(0.2), 4);
  EXPECT_EQ(at(0.05), 16);
  EXPECT_EQ(at(1e-9), 16);
  EXPECT_EQ(at(std::numeric_limits<double>::denorm_min()), 16);
  EXPECT_EQ(at(0), 16);
  EXPECT_EQ(at(1.6), 1);
  EXPECT_EQ(intervals.at(100, 0.1, 0.8), 1);
  EXPECT_EQ(intervals.at(101, 0, 0), 16);
  EXPECT_EQ(Intervals(0, kAuto, 12).at(1, 0.05, 0.8), 12);
}

// Steps, 1-bit Adam's freeze, and of 0/1 Adam the variance freeze and double_every.
struct Recipe {
  std::int64_t steps, freeze, variance_freeze, double_every;

  Rounds one_bit_adam() const { return freeze_rounds(steps, freeze); }
  Rounds zero_one_adam() const {
    return interval_rounds(steps, {16, variance_freeze}, {variance_freeze, double_every, 16});
  }
  double rounds_saved() const {
    return 1 - static_cast<double>(zero_one_adam().rounds()) / static_cast<double>(steps);
  }
  double volume_saved(double dense_bits, double coded_bits) const {
    return 1 - zero_one_adam().bits_per_parameter_per_step(dense_bits, coded_bits) /
                   one_bit_adam().bits_per_parameter_per_step(dense_bits, coded_bits);
  }
};

constexpr Recipe kBertBase{118'000, 16'000, 12'500, 32'678};
constexpr Recipe kBertLarge{152'000, 23'000, 12'500, 32'678};
constexpr Recipe kGpt2{300'000, 80'000, 80'000, 80'000};
constexpr Recipe kImageNet{450'450, 50'050, 50'050, 50'050};

TEST(Rounds, OfBertBaseAreAsPublished) {
  EXPECT_EQ(kBertBase.one_bit_adam().dense, 16'000);
  EXPECT_EQ(kBertBase.one_bit_adam().coded, 102'000);
  EXPECT_EQ(kBertBase.zero_one_adam().dense, 153);
  EXPECT_EQ(kBertBase.zero_one_adam().coded, 70'467);
  EXPECT_NEAR(kBertBase.one_bit_adam().bits_per_parameter_per_step(16, 1), 3.034, 5e-4);
  EXPECT_NEAR(kBertBase.zero_one_adam().bits_per_parameter_per_step(16, 1), 0.618, 5e-4);
  EXPECT_NEAR(kBertBase.volume_saved(16, 1), 0.796, 5e-4);
  EXPECT_NEAR(kBertBase.rounds_saved(), 0.402, 5e-4);
  EXPECT_NEAR(kBertBase.one_bit_adam().bits_per_parameter_per_step(32, 1.008), 5.21, 5e-3);
  EXPECT_NEAR(kBertBase.zero_one_adam().bits_per_parameter_per_step(32, 1.008), 0.643, 5e-4);
  EXPECT_NEAR(kBertBase.volume_saved(32, 1.008), 0.877, 5e-4);
}

TEST(Rounds, OfBertLargeAreAsPublished) {
  EXPECT_EQ(kBertLarge.zero_one_adam().dense, 153);
  EXPECT_EQ(kBertLarge.zero_one_adam().coded, 74'168);
  EXPECT_NEAR(kBertLarge.one_bit_adam().bits_per_parameter_per_step(16, 1), 3.270, 5e-4);
  EXPECT_NEAR(kBertLarge.zero_one_adam().bits_per_parameter_per_step(16, 1), 0.504, 5e-4);
  EXPECT_NEAR(kBertLarge.volume_saved(16, 1), 0.846, 5e-4);
  EXPECT_NEAR(kBertLarge.rounds_saved(), 0.511, 5e-4);
  EXPECT_NEAR(kBertLarge.one_bit_adam().bits_per_parameter_per_step(32, 1.008), 5.70, 5e-3);
  EXPECT_NEAR(kBertLarge.zero_one_adam().bits_per_parameter_per_step(32, 1.008), 0.524, 5e-4);
  EXPECT_NEAR(kBertLarge.volume_saved(32, 1.008), 0.908, 5e-4);
}

// With 10,000 steps more, against the bits of 1-bit Adam's 152,000 steps.
TEST(Rounds, OfBertLargeCarriedOnAreAsPublished) {
  Recipe longer = kBertLarge;
  longer.steps += 10'000;
  EXPECT_NEAR(longer.rounds_saved(), 0.537, 5e-4);
  EXPECT_NEAR(1 - longer.zero_one_adam().bits_per_parameter_per_step(16, 1) /
                      kBertLarge.one_bit_adam().bits_per_parameter_per_step(16, 1),
              0.854, 5e-4);
}

// One term for each stretch of steps with the same interval.
TEST(Rounds, OfGpt2AndImageNetAreTheSumsOverTheirIntervals) {
  EXPECT_EQ(kGpt2.zero_one_adam().dense, 196);
  EXPECT_EQ(kGpt2.zero_one_adam().coded, (80'000 - 196) + 80'000 + 80'000 / 2 + 60'000 / 4);
  EXPECT_EQ(kImageNet.zero_one_adam().dense, 185);
  constexpr std::int64_t kStretch = 50'050, kLastStep = 1;
  EXPECT_EQ(kImageNet.zero_one_adam().coded, (kStretch - 185) + kStretch + kStretch / 2 +
                                                 kStretch / 4 + kStretch / 8 + 4 * kStretch / 16 +
                                                 kLastStep);
}

// Interval 1 at step 2, 2 at 3, 4 at 4, 8 at 5, then 16: syncs at 2, 18, 34, …
TEST(Rounds, EndWithASync) {
  const auto coded = [](std::int64_t steps) {
    return interval_rounds(steps, {16, 1}, {1, 1, 16}).coded;
  };
  EXPECT_EQ(coded(1), 0);
  EXPECT_EQ(coded(2), 1);
  EXPECT_EQ(coded(3), 2);
  EXPECT_EQ(coded(17), 2);
  EXPECT_EQ(coded(18), 2);
  EXPECT_EQ(coded(19), 3);
}

TEST(Rounds, AreNotKnownBeforehandWhenAuto) {
  EXPECT_THROW(freeze_rounds(100, kAuto), Error);
  EXPECT_THROW(interval_rounds(100, {16, 10}, {10, kAuto, 16}), Error);
  EXPECT_EQ(freeze_rounds(100, 1000).dense, 100);
  EXPECT_EQ(Rounds{}.bits_per_parameter_per_step(32, 1), 0);
}

}  // namespace
}  // namespace laconic
