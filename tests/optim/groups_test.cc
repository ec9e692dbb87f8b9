#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/optim/training.h"
#include "tests/support/refusal.h"

namespace laconic::testing {
namespace {

Training::GradientOf of_noise() {
  return [](std::int64_t step, int rank, std::size_t k) { return noise(step, rank, k); };
}

TEST_P(OptimizerSuite, AGroupIsTrainedAsAModelOfItsOwn) {
  if (algorithm() == "birder") GTEST_SKIP() << "buckets draw random numbers of their own";
  run([](Transport& world) {
    OptimizerConfig config = OptimizerSuite::config();
    config.bucket_elements = 1000;
    Training together(config, world, three_groups());
    together.gradient_of = of_noise();
    together.run_to(kSteps);
    std::size_t begin = 0;
    for (const Group& group : three_groups()) {
      Group alone = group;
      alone.lr_factor = 1;
      Training apart(config, world, {alone}, group.elements);
      std::copy_n(Training(config, world).weights.begin() + static_cast<std::ptrdiff_t>(begin),
                  group.elements, apart.weights.begin());
      apart.gradient_of = [begin](std::int64_t t, int rank, std::size_t k) {
        return noise(t, rank, begin + k);
      };
      apart.lr = [lr = apart.lr, &group](std::int64_t t) { return group.lr_factor * lr(t); };
      apart.run_to(kSteps);
      for (std::size_t k = 0; k < group.elements; ++k)
        ASSERT_EQ(apart.weights[k], together.weights[begin + k]) << group.name << " " << k;
      begin += group.elements;
    }
  });
}

// With powers of two as factors the products are exact, so a rate of its own and a factor are one.
TEST_P(OptimizerSuite, GroupsMayHaveRatesOfTheirOwnInEachStep) {
  run([](Transport& world) {
    auto groups = three_groups();
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i].lr_factor = i == 1 ? 0.25 : 1;
    Training factors(OptimizerSuite::config(), world, groups);
    auto plain = groups;
    for (Group& group : plain) group.lr_factor = 1, group.weight_decay = 0;
    Training rates(OptimizerSuite::config(), world, plain);
    factors.gradient_of = rates.gradient_of = of_noise();
    for (std::int64_t t = 1; t <= kSteps; ++t) {
      factors.run_to(t);
      std::vector<GroupStep> steps;
      for (const Group& group : groups)
        steps.push_back({group.lr_factor * rates.lr(t), group.weight_decay});
      rates.compute();
      rates.optimizer->begin(steps);
      rates.optimizer->step();
      ASSERT_EQ(factors.weights, rates.weights) << "step " << t;
    }
  });
}

TEST_P(OptimizerSuite, AGroupWithoutALearningRateRests) {
  run([](Transport& world) {
    Training training(OptimizerSuite::config(), world, three_groups());
    training.gradient_of = of_noise();
    const auto before = training.weights;
    const std::size_t resting = training.optimizer->model().groups[0].elements;
    for (std::int64_t t = 1; t <= 2 * kSteps; ++t) {
      const double first = t <= kSteps ? 0 : training.lr(t);
      const GroupStep steps[] = {{first, 0}, {training.lr(t), 0}, {training.lr(t), 0}};
      training.compute();
      training.optimizer->begin(steps);
      training.optimizer->step();
      for (std::size_t k = 0; t == kSteps && k < resting; ++k)
        ASSERT_EQ(training.weights[k], before[k]) << k;
    }
    training.optimizer->synchronize();
    EXPECT_NE(training.weights.front(), before.front());
    for (const float x : training.weights) ASSERT_TRUE(std::isfinite(x));
  });
}

TEST_P(OptimizerSuite, RefusesRatesThatDoNotFitTheGroups) {
  run([](Transport& world) {
    Training training(OptimizerSuite::config(), world, three_groups());
    const GroupStep two[] = {{1e-3, 0}, {1e-3, 0}};
    const GroupStep wrong[] = {{1e-3, 0}, {-1, 0}, {1e-3, 0}};
    EXPECT_TRUE(says(refusal_of([&] { training.optimizer->begin(two); }),
                     {"2 learning rates for 3 groups"}));
    EXPECT_TRUE(says(refusal_of([&] { training.optimizer->begin(wrong); }),
                     {"a learning rate of -1", "at least 0"}));
    training.gradient_of = of_noise();
    training.run_to(2);  // nothing was begun
  });
}

// Elements 64 to 127 never have a gradient, on any rank.
TEST_P(OptimizerSuite, WithoutAGradientWeightDecayAloneActs) {
  if (alone()) GTEST_SKIP() << "decay is part of what the outer rule moves";
  run([](Transport& world) {
    OptimizerConfig config = OptimizerSuite::config();
    config.weight_decay = 0.3;
    config.min_trust = config.max_trust = 1;
    // With a trust ratio decay is subtracted with the rest of the step, so it rounds differently.
    const double rounding = method_named(config.algorithm).find("max_trust") ? 1e-6 : 0;
    Training training(config, world, {}, 256);
    training.gradient_of = [](std::int64_t t, int rank, std::size_t k) {
      return k / 64 == 1 ? 0 : noise(t, rank, k);
    };
    std::vector<float> expected = training.weights;
    double kept = 1;
    for (std::int64_t t = 1; t <= kSteps + 1; ++t) {
      training.run_to(t);
      kept *= 1 - training.lr(t) * config.weight_decay;
      const bool last = t == kSteps + 1;
      if (last) training.optimizer->synchronize();  // step 26 is in the middle of an interval
      if (!synced(*training.optimizer) && !last) continue;
      for (float& x : expected) x *= static_cast<float>(kept);
      kept = 1;
      for (std::size_t k = 64; k < 128; ++k)
        ASSERT_NEAR(training.weights[k], expected[k], rounding) << "step " << t << ", weight " << k;
    }
  });
}

// Every third element, inside blocks that move: while v may change they rest.
TEST_P(OptimizerSuite, ElementsWithoutAGradientRest) {
  if (signs()) GTEST_SKIP() << "activity is of words of 64";
  if (alone() && lossy()) GTEST_SKIP() << "a lossy codec moves them";
  run([](Transport& world) {
    OptimizerConfig config = OptimizerSuite::config();
    config.weight_decay = 0;
    config.freeze_step = config.variance_freeze_step = 100;
    Training training(config, world);
    training.gradient_of = [](std::int64_t t, int rank, std::size_t k) {
      return k % 3 == 0 ? 0 : noise(t, rank, k);
    };
    const auto before = training.weights;
    training.run_to(60);
    for (std::size_t k = 0; k < kElements; ++k)
      ASSERT_EQ(training.weights[k] == before[k], k % 3 == 0) << k;
  });
}

TEST_P(OptimizerSuite, ARowFirstSeenAfterTheFreezeCanLearn) {
  run([](Transport& world) {
    OptimizerConfig config = OptimizerSuite::config();
    config.weight_decay = 0;
    Training training(config, world);
    training.gradient_of = [](std::int64_t t, int rank, std::size_t k) {
      return k % 64 < 32 ? noise(t, rank, k) : t <= 30 ? 0 : 0.5F + noise(t, rank, k);
    };
    training.run_to(30);
    const auto before = training.weights;
    training.run_to(100);
    for (std::size_t k = 32; k < 64; ++k) {
      EXPECT_LT(training.weights[k], before[k]) << k;
      EXPECT_GT(training.weights[k], before[k] - 3) << k;
    }
  });
}

TEST_P(OptimizerSuite, ALearningRateOfZeroMovesNothing) {
  run([](Transport& world) {
    Training training(config(), world, three_groups());
    training.lr = [lr = training.lr](std::int64_t t) { return t % 4 == 3 || t == 1 ? 0 : lr(t); };
    for (std::int64_t t = 1; t <= 40; ++t) {
      auto before = bytes_of(training);
      training.run_to(t);
      if (training.lr(t) != 0) continue;
      auto after = bytes_of(training);
      // An exchange that began before may arrive.
      EXPECT_TRUE(before["weights"] == after["weights"] || delayed()) << "step " << t;
      if (training.optimizer->stats().kind != "nothing") continue;
      EXPECT_EQ(method().name, "zero-one-adam");
      before.erase("counters");
      after.erase("counters");
      // v = 0 becomes the block's mean on the first step after the freeze, whatever its rate.
      expect_same(before, after);
    }
    EXPECT_EQ(training.optimizer->stats().step, 40);
    training.optimizer->synchronize();
    EXPECT_TRUE(equal_on_all(world, training.weights));
    EXPECT_TRUE(all_finite(training));
  });
}

// Where the gradient is 10^-6 of its block's, one bit would throw the weight far without the floor.
double farthest(std::string algorithm, int ranks, double floor) {
  double most = 0;
  run_ranks(ranks, [&](Transport& world) {
    OptimizerConfig config = short_config(algorithm);
    config.weight_decay = 0;
    config.variance_floor = floor;
    config.max_interval = 1;
    Training training(config, world, {}, 128);
    std::fill(training.weights.begin(), training.weights.end(), 0.F);
    training.gradient_of = [](std::int64_t t, int rank, std::size_t k) {
      return noise(t, rank, k) * (k % 4 == 1 ? 1e-6F : 1.F);
    };
    training.run_to(200);
    if (world.rank() != 0 && ranks_are_threads()) return;
    for (std::size_t k = 1; k < 128; k += 4)
      most = std::max(most, static_cast<double>(std::abs(training.weights[k])));
  });
  return most;
}

TEST(VarianceFloor, KeepsWeightsOfTinyGradientsFromBeingThrown) {
  for (const std::string algorithm : {"one-bit-adam", "zero-one-adam"})
    for (const int ranks : rank_counts()) {
      if (ranks > 4) continue;
      SCOPED_TRACE(std::string(algorithm) + " on " + std::to_string(ranks));
      EXPECT_LT(farthest(algorithm, ranks, 0.01), 1);
      EXPECT_GT(farthest(algorithm, ranks, 0), 100);
    }
}

}  // namespace
}  // namespace laconic::testing
