#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "laconic/checkpoint/checkpoint.h"
#include "tests/checkpoint/scratch.h"
#include "tests/optim/training.h"

namespace laconic::testing {
namespace {

TEST_P(OptimizerSuite, GivesTheSameBitsForAnyNumberOfThreads) {
  run([](Transport& world) {
    OptimizerConfig config = OptimizerSuite::config();
    config.bucket_elements = 10000;
    Training one(config, world, {}, 9000);
    config.threads = 3;
    Training three(config, world, {}, 9000);
    one.run_to(kSteps);
    three.run_to(kSteps);
    expect_same(bytes_of(one), bytes_of(three));
  });
}

TEST_P(OptimizerSuite, TakesBucketsInAnyOrder) {
  run([](Transport& world) {
    Training whole(config(), world, three_groups());
    Training parts(config(), world, three_groups());
    const int buckets = parts.optimizer->buckets();
    ASSERT_EQ(buckets, delayed() ? 7 : 4);
    whole.run_to(kSteps);
    std::vector<int> order(static_cast<std::size_t>(buckets));
    std::iota(order.begin(), order.end(), 0);
    while (parts.next() <= kSteps) {
      parts.compute();
      parts.optimizer->begin(parts.lr(parts.next()));
      // Each rank in an order of its own; on odd steps one bucket is left to step().
      std::rotate(order.begin(), order.begin() + 1 + world.rank() % 3, order.end());
      const auto told = static_cast<std::size_t>(buckets - parts.next() % 2);
      for (std::size_t i = 0; i < told; ++i) parts.optimizer->ready(order[i]);
      parts.optimizer->step();
    }
    expect_same(bytes_of(whole), bytes_of(parts));
  });
}

TEST_P(OptimizerSuite, KeepsReplicasByteEqualAfterEverySync) {
  run([](Transport& world) {
    Training training(config(), world, three_groups());
    std::vector<float> shared(kElements);
    bool drifted = false;
    for (std::int64_t t = 1; t <= kSteps; ++t) {
      training.run_to(t);
      const bool equal = equal_on_all(world, training.weights);
      drifted |= !equal;
      EXPECT_TRUE(equal || !synced(*training.optimizer)) << "step " << t;
      training.optimizer->synced_weights(shared);
      EXPECT_TRUE(equal_on_all(world, shared)) << "step " << t;
    }
    EXPECT_EQ(drifted, (alone() || method().name == "zero-one-adam") && world.size() > 1);
    training.optimizer->synchronize();
    EXPECT_TRUE(equal_on_all(world, training.weights));
    const auto once = bytes_of(training);
    training.optimizer->synchronize();
    expect_same(once, bytes_of(training));
  });
}

TEST_P(OptimizerSuite, ARunOfKnownLengthEndsInASync) {
  run([](Transport& world) {
    OptimizerConfig config = OptimizerSuite::config();
    config.total_steps = 23;
    Training training(config, world, three_groups());
    training.run_to(23);
    EXPECT_TRUE(synced(*training.optimizer));
    EXPECT_TRUE(equal_on_all(world, training.weights));
  });
}

TEST_P(OptimizerSuite, ResumesBitForBitAtAnyStep) {
  const Scratch scratch;
  run([&](Transport& world) {
    // 13, 18 and 19 are in the middle of 0/1 Adam's local intervals, 6 and 8 before the freezes.
    const std::int64_t points[] = {0, 3, 6, 8, 13, 18, 19};
    Training whole(config(), world, three_groups());
    std::vector<std::map<std::string, std::string>> saved;
    for (const std::int64_t point : points) {
      whole.run_to(point);
      save_checkpoint(scratch / std::to_string(point), *whole.optimizer);
      saved.push_back(bytes_of(whole));
    }
    whole.run_to(kSteps);
    const auto end = bytes_of(whole);
    Training undisturbed(config(), world, three_groups());
    undisturbed.run_to(kSteps);
    expect_same(end, bytes_of(undisturbed));

    for (std::size_t i = 0; i < std::size(points); ++i) {
      Training again(config(), world, three_groups());
      // A fresh optimizer and one that went elsewhere before do equally well.
      if (i % 2 == 1) again.run_to(15);
      EXPECT_EQ(load_checkpoint(scratch / std::to_string(points[i]), *again.optimizer),
                Resume::kExact);
      EXPECT_EQ(again.optimizer->stats().step, points[i]);
      expect_same(saved[i], bytes_of(again));
      again.run_to(kSteps);
      SCOPED_TRACE("resumed at " + std::to_string(points[i]));
      expect_same(end, bytes_of(again));
    }
  });
}

TEST_P(OptimizerSuite, TrainsAModelOfOneWeight) {
  run([](Transport& world) {
    Training training(config(), world, {}, 1);
    const float before = training.weights[0];
    training.run_to(24);  // a sync
    if (delayed()) training.optimizer->synchronize();
    EXPECT_NE(training.weights[0], before);
    EXPECT_TRUE(all_finite(training));
    EXPECT_TRUE(equal_on_all(world, training.weights));
  });
}

TEST_P(OptimizerSuite, TrainsAModelOfNoWeights) {
  const Scratch scratch;
  run([&](Transport& world) {
    Training training(config(), world, {}, 0);
    training.run_to(kSteps);
    training.optimizer->synchronize();
    EXPECT_EQ(training.optimizer->totals().steps, kSteps);
    EXPECT_EQ(training.optimizer->buckets(), 0);
    save_checkpoint(scratch / "empty", *training.optimizer);
    Training again(config(), world, {}, 0);
    load_checkpoint(scratch / "empty", *again.optimizer);
    EXPECT_EQ(again.optimizer->stats().step, kSteps);
  });
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerSuite, ::testing::ValuesIn(settings()), name_of);

}  // namespace
}  // namespace laconic::testing
