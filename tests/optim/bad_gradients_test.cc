#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/optim/training.h"

namespace laconic::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The last rank's gradient has something bad at element 70 on these steps: of every kind, and the
// first.
const std::int64_t kBadSteps[] = {1, 5, 6, 9, 12, 13, 18, 20};
bool is_bad(std::int64_t step) {
  return std::find(std::begin(kBadSteps), std::end(kBadSteps), step) != std::end(kBadSteps);
}

void spoil(Training& training) {
  const bool last = training.world.rank() == training.world.size() - 1;
  training.gradient_of = [&training, last](std::int64_t step, int rank, std::size_t k) {
    const float good = 0.3F * training.weights[k] + noise(step, rank, k);
    if (!last || k != 70 || !is_bad(step)) return good;
    return step % 2 == 0 ? kNaN : step % 3 == 0 ? -kInfinity : kInfinity;
  };
}

TEST_P(OptimizerSuite, SurvivesWhatIsNotFiniteOnOneRank) {
  run([](Transport& world) {
    Training training(config(), world, three_groups());
    spoil(training);
    const bool last = world.rank() == world.size() - 1;
    for (std::int64_t t = 1; t <= kSteps; ++t) {
      training.run_to(t);
      ASSERT_TRUE(all_finite(training)) << "step " << t;
      if (synced(*training.optimizer)) {
        ASSERT_TRUE(equal_on_all(world, training.weights)) << "step " << t;
      }
      const StepStats& stats = training.optimizer->stats();
      // Everyone has a bad exact mean; what is coded or silent is bad on its rank alone.
      if (!is_bad(t)) {
        EXPECT_EQ(stats.bad_blocks, 0U) << "step " << t;
      } else if ((stats.kind == "dense" && !codes(stats) && !alone()) || last) {
        EXPECT_GE(stats.bad_blocks, 1U) << "step " << t << ", " << stats.kind;
      }
    }
    EXPECT_GE(training.optimizer->totals().bad_blocks, last ? 8U : dense() ? 8U : 0U);
  });
}

TEST_P(OptimizerSuite, LeavesOtherBlocksAloneWhenOneIsBad) {
  run([](Transport& world) {
    // A tensor of its own: some methods move tensors as a whole.
    Model model;
    model.ranges = {{"spoiled", 0, 128}, {"others", 128, kElements - 128}};
    Training good(config(), world, {}, kElements, model),
        bad(config(), world, {}, kElements, model);
    spoil(bad);
    // From the noise alone, so that blocks do not meet through the weights.
    const auto spoiled = bad.gradient_of;
    good.gradient_of = [](std::int64_t t, int rank, std::size_t k) { return noise(t, rank, k); };
    bad.gradient_of = [&](std::int64_t t, int rank, std::size_t k) {
      const float value = spoiled(t, rank, k);
      return std::isfinite(value) ? noise(t, rank, k) : value;
    };
    good.run_to(kSteps);
    bad.run_to(kSteps);
    // Where a mean is exact, blocks are as long as tiles: the bucket.
    for (std::size_t k = 128; k < kElements; ++k) ASSERT_EQ(good.weights[k], bad.weights[k]) << k;
  });
}

TEST_P(OptimizerSuite, SkipsTheWholeStepWhereAsked) {
  run([](Transport& world) {
    OptimizerConfig config = OptimizerSuite::config();
    config.skip = Skip::kStep;
    Training plain(config, world, three_groups()), skipping(config, world, three_groups());
    plain.run_to(kSteps);
    std::int64_t skipped = 0;
    for (std::int64_t t = 1; t <= kSteps; ++t) {
      if (is_bad(t)) {
        skipping.compute();
        const auto before = bytes_of(skipping);
        if (world.rank() == world.size() - 1) skipping.gradient[70] = kNaN;
        skipping.optimizer->step(skipping.lr(t));
        EXPECT_EQ(skipping.optimizer->stats().kind, "skipped");
        EXPECT_EQ(skipping.optimizer->stats().step, t - 1);
        EXPECT_EQ(skipping.optimizer->totals().skipped, ++skipped);
        expect_same(before, bytes_of(skipping));
      }
      skipping.run_to(t);
    }
    EXPECT_EQ(skipping.optimizer->totals().steps, kSteps);
    expect_same(bytes_of(plain), bytes_of(skipping));
  });
}

}  // namespace
}  // namespace laconic::testing
