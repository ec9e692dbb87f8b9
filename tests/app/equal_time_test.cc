#include "app/training/equal_time.h"

#include <gtest/gtest.h>

namespace laconic::app::training {
namespace {

RunConfig config_of(const char* arm) {
  RunConfig config;
  config.arm = arm;
  config.model.name = "resnet8";
  return resolved(config);
}

std::vector<report::StepRecord> steps_of(const std::vector<std::pair<const char*, double>>& kinds) {
  std::vector<report::StepRecord> steps;
  for (const auto& [kind, seconds] : kinds) {
    report::StepRecord record;
    record.kind = kind;
    record.step_seconds = seconds;
    record.exposed_seconds = seconds / 2;
    steps.push_back(record);
  }
  return steps;
}

TEST(EqualTime, TheFirstStepAndOneThatStallsDoNotCount) {
  const StepTimes times = step_times(
      steps_of({{"dense", 90}, {"dense", 3}, {"dense", 70}, {"dense", 3}, {"coded", 1}}));
  EXPECT_EQ(times.exact, 3.0);
  EXPECT_EQ(times.coded, 1.0);
  EXPECT_FALSE(times.local);
  EXPECT_EQ(times.alone, 1.5);
}

TEST(EqualTime, ExactRunsTakeAsManyStepsAsFit) {
  const StepTimes times = step_times(steps_of({{"dense", 9}, {"dense", 0.5}, {"dense", 0.5}}));
  EXPECT_EQ(steps_within(30, config_of("adamw"), times), 60);
  EXPECT_EQ(steps_within(0.1, config_of("adamw"), times), 1) << "one step at least";
}

TEST(EqualTime, KindsOfStepsAreWeightedByTheSchedule) {
  const StepTimes times =
      step_times(steps_of({{"dense", 9}, {"dense", 1}, {"coded", 0.1}, {"silent", 0.05}}));
  const RunConfig one_bit = config_of("one-bit-adam");
  // A fifth of the steps is exact.
  EXPECT_NEAR(expected_seconds(one_bit, 100, times), 20 * 1 + 80 * 0.1, 1e-9);
  const std::int64_t most = steps_within(28, one_bit, times);
  EXPECT_LE(expected_seconds(one_bit, most, times), 28 + 1e-9);
  EXPECT_GT(expected_seconds(one_bit, most + 5, times), 28);
  const RunConfig local = config_of("zero-one-adam");
  EXPECT_LT(expected_seconds(local, 1000, times), 100 + 50) << "most steps are local";
}

TEST(EqualTime, ARunTakesTheTimeOfItsKindsOfSteps) {
  const StepTimes times =
      step_times(steps_of({{"dense", 9}, {"dense", 4}, {"coded", 2}, {"silent", 1}}));
  const auto run = steps_of({{"dense", 70}, {"coded", 70}, {"coded", 70}, {"silent", 70}});
  EXPECT_DOUBLE_EQ(seconds_of(run, times), 4 + 2 + 2 + 1);
}

TEST(EqualTime, AScheduleThatIsDecidedWhileItTrainsGoesAsTheRehearsal) {
  RunConfig config = config_of("one-bit-adam");
  assign(config, {"optimizer.freeze_step", "auto"});
  const StepTimes times = step_times(steps_of({{"dense", 9}, {"dense", 1}, {"coded", 0.5}}));
  EXPECT_DOUBLE_EQ(expected_seconds(config, 10, times), 7.5);
}

TEST(EqualTime, AKindThatTheRehearsalLackedIsNotFree) {
  const StepTimes times = step_times(steps_of({{"dense", 9}, {"dense", 1}}));
  EXPECT_NEAR(expected_seconds(config_of("one-bit-adam"), 100, times), 100, 1e-9);
  EXPECT_GT(expected_seconds(config_of("zero-one-adam"), 100, times), 50)
      << "a local step takes what an exact one takes without its exchange";
}

}  // namespace
}  // namespace laconic::app::training
