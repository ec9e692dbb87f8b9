#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/optim/training.h"
#include "tests/support/thrown.h"

namespace laconic::testing {
namespace {

TEST_P(OptimizerSuite, GaugesWhatWasCodedRangeByRange) {
  if (delayed()) GTEST_SKIP() << "refused";
  run([](Transport& world) {
    OptimizerConfig config = OptimizerSuite::config();
    Training plain(config, world, three_groups());
    config.shadow_every = 2;
    Training gauged(config, world, three_groups());
    // One node is an exact mean of what Birder's ranks drew, and of all that others say.
    // A vote of one rank is its sign; halves and quarters are counted exactly.
    const bool counts = config.form == RandomForm::kCount;
    const bool exact = method().codec == kVote
                           ? world.size() == 1 || (counts && world.size() % 2 == 0)
                           : config.ranks_per_node == world.size() && algorithm() != "birder";
    for (std::int64_t t = 1; t <= kSteps; ++t) {
      plain.run_to(t);
      gauged.run_to(t);
      const StepStats& stats = gauged.optimizer->stats();
      if (t % 2 != 0 || !codes(stats)) {
        EXPECT_TRUE(stats.shadow.empty());
        continue;
      }
      ASSERT_EQ(stats.shadow.size(), 3U) << "step " << t;
      for (std::size_t i = 0; i < 3; ++i) {
        const Gauge& gauge = stats.shadow[i];
        EXPECT_EQ(gauge.name, three_groups()[i].name);
        EXPECT_LE(gauge.cosine, 1 + 1e-9);
        EXPECT_GT(gauge.cosine, algorithm() == "birder" ? -0.5 : 0) << "step " << t;
        EXPECT_GT(gauge.sign_agreement, 0.3) << "step " << t;
        EXPECT_LE(gauge.sign_agreement, 1);
        const bool told_exactly = exact || !three_groups()[i].compress;
        EXPECT_EQ(gauge.relative_error == 0, told_exactly) << gauge.name << ", step " << t;
      }
    }
    expect_same(bytes_of(plain), bytes_of(gauged));
  });
}

// Two ranges of a model, `left` and `right`.
std::unique_ptr<Optimizer> verified_optimizer(const OptimizerConfig& config, Training& memory) {
  return make_optimizer(
      config,
      {memory.weights, memory.gradient, {}, {{"left", 0, 200}, {"right", 200, kElements - 200}}},
      memory.world);
}

TEST_P(OptimizerSuite, FindsAReplicaThatDiffersAndNamesItsRangeAndRank) {
  run([](Transport& world) {
    OptimizerConfig config = OptimizerSuite::config();
    config.verify_every = 3;
    Training memory(config, world);
    const auto optimizer = verified_optimizer(config, memory);
    for (int t = 0; t < 12; ++t) {
      memory.compute();
      optimizer->step(0.01);
    }
    if (world.size() == 1) return;
    // Some methods take their weights anew from those of the last sync.
    const std::size_t at = 230;
    if (world.rank() == world.size() - 1) {
      if (!alone() && method().name != "zero-one-adam") memory.weights[at] += 1;
      for (int b = 0; b < optimizer->buckets(); ++b) {
        const std::size_t begin = optimizer->bucket(b).begin;
        const auto synced = state_of(*optimizer, "bucket" + std::to_string(b) + "/x_sync");
        if (at >= begin && at - begin < synced.size()) synced[at - begin] += 1;
      }
    }
    std::optional<Error> error;
    for (int t = 0; t < 8 && !error; ++t) error = thrown([&] { optimizer->step(0.01); });
    expect_says(error, Code::kMismatch,
                {"range right", "rank(s) " + std::to_string(world.size() - 1) + " "});
  });
}

TEST_P(OptimizerSuite, CountsBytesAndRounds) {
  run([](Transport& world) {
    Training training(config(), world, three_groups());
    std::uint64_t bytes = 0;
    Totals counted;
    for (std::int64_t t = 1; t <= kSteps; ++t) {
      training.run_to(t);
      const StepStats& stats = training.optimizer->stats();
      EXPECT_EQ(stats.step, t);
      bytes += stats.bytes_inside + stats.bytes_between;
      counted.dense += stats.kind == "dense";
      counted.coded += stats.kind == "coded";
      counted.silent += stats.kind == "silent";
      // What outlives its step counts where it is applied, here a step later.
      const bool speaks =
          world.size() > 1 && t > (delayed() ? 1 : 0) && (stats.kind == "silent") == delayed();
      EXPECT_EQ(stats.bytes_inside + stats.bytes_between > 0, speaks) << "step " << t;
    }
    const Totals& totals = training.optimizer->totals();
    EXPECT_EQ(totals.bytes, bytes);
    EXPECT_EQ(totals.bytes, totals.bytes_inside + totals.bytes_between);
    EXPECT_EQ(totals.dense, counted.dense);
    EXPECT_EQ(totals.coded, counted.coded);
    EXPECT_EQ(totals.silent, counted.silent);
    EXPECT_EQ(totals.steps, kSteps);
    EXPECT_EQ(totals.steps, totals.dense + totals.coded + totals.silent);
    EXPECT_EQ(totals.skipped, 0);
    EXPECT_EQ(totals.bad_blocks, 0U);
    EXPECT_FALSE(training.optimizer->describe().empty());
  });
}

TEST_P(OptimizerSuite, TellsHowMuchWasLeftUnsaid) {
  run([](Transport& world) {
    Training training(config(), world);
    training.run_to(24);  // a sync
    const bool feeds_back = lossy() && !signs();
    const bool exact = GetParam().per_node == world.size();
    const double ratio = training.optimizer->stats().residual_ratio;
    EXPECT_EQ(ratio > 0, feeds_back && !exact) << ratio;
    EXPECT_TRUE(std::isfinite(ratio));
  });
}

}  // namespace
}  // namespace laconic::testing
