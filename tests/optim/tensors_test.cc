// Methods whose steps are as long as a tensor's trust ratio allows.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/optim/training.h"
#include "tests/support/refusal.h"

namespace laconic::testing {
namespace {

// Longer and shorter than the 4096 elements of a partial sum; none begins where a bucket does.
constexpr std::size_t kWeights = 9000;
std::vector<NamedRange> tensors() {
  return {{"long", 0, 5003}, {"one", 5003, 1}, {"middle", 5004, 3700}, {"short", 8704, 296}};
}

Model model_of(std::vector<NamedRange> ranges) {
  Model model;
  model.ranges = std::move(ranges);
  return model;
}

Training::GradientOf of_noise() {
  return [](std::int64_t t, int rank, std::size_t k) {
    return noise(t, rank, k) + noise(0, 0, k / 50);
  };
}

double norm_of(std::span<const float> values) {
  double sum = 0;
  for (const float x : values) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

OptimizerConfig lamb_with_buckets(std::size_t elements) {
  OptimizerConfig config = short_config("lamb");
  config.bucket_elements = elements;
  return config;
}

TEST(Tensors, MoveAlikeWhereverBucketsBegin) {
  run_ranks(rank_counts().back(), [](Transport& world) {
    Training whole(lamb_with_buckets(kWeights), world, {}, kWeights, model_of(tensors()));
    whole.gradient_of = of_noise();
    whole.run_to(10);
    for (const std::size_t elements : {100, 4096, 4097, 8704}) {
      OptimizerConfig config = lamb_with_buckets(elements);
      config.threads = 3;
      Training parts(config, world, {}, kWeights, model_of(tensors()));
      parts.gradient_of = of_noise();
      parts.run_to(10);
      ASSERT_EQ(whole.weights, parts.weights) << "buckets of " << elements;
    }
  });
}

TEST(Tensors, AreGroupsWhereTheModelHasNoRanges) {
  run_ranks(rank_counts().back(), [](Transport& world) {
    Training named(short_config("lamb"), world, three_groups(), kElements,
                   model_of({{"body", 0, 200}, {"bias", 200, 60}, {"head", 260, 100}}));
    Training plain(short_config("lamb"), world, three_groups());
    Training one(short_config("lamb"), world, three_groups(), kElements,
                 model_of({{"crosses groups", 100, 200}}));
    for (Training* each : {&named, &plain, &one}) each->run_to(5);
    EXPECT_EQ(named.weights, plain.weights);
    EXPECT_NE(one.weights, plain.weights);
  });
}

TEST(Tensors, MoveByTheRateTimesTheirNorm) {
  run_ranks(rank_counts().back(), [](Transport& world) {
    for (const char* algorithm : {"lamb", "lamb:codec=int8:feedback=ema", "one-bit-lamb"}) {
      OptimizerConfig config = short_config(algorithm);
      config.bucket_elements = 1000;
      config.weight_decay = 0;
      config.max_trust = 1e6;
      config.min_trust = 1e-6;
      Training training(config, world, {}, kWeights, model_of(tensors()));
      training.gradient_of = of_noise();
      for (std::int64_t t = 1; t <= 10; ++t) {
        std::vector<float> moved = training.weights;
        training.run_to(t);
        for (std::size_t k = 0; k < kWeights; ++k) moved[k] -= training.weights[k];
        for (const NamedRange& one : tensors()) {
          const auto step = std::span(moved).subspan(one.begin, one.count);
          auto before = training.weights;
          for (std::size_t k = 0; k < kWeights; ++k) before[k] += moved[k];
          const double expected =
              training.lr(t) * norm_of(std::span(before).subspan(one.begin, one.count));
          ASSERT_NEAR(norm_of(step), expected, 1e-4 * expected)
              << algorithm << ", step " << t << ", " << one.name;
        }
      }
    }
  });
}

TEST(Tensors, StayWithinTheBoundsOfTheTrustRatio) {
  run_ranks(rank_counts().front(), [](Transport& world) {
    OptimizerConfig config = short_config("lamb");
    config.weight_decay = 0;
    config.max_trust = 2;
    config.min_trust = 0.5;
    Training training(config, world, {}, 300,
                      model_of({{"large", 0, 100}, {"small", 100, 100}, {"zero", 200, 100}}));
    for (std::size_t k = 0; k < 300; ++k) training.weights[k] = k < 100 ? 50 : k < 200 ? 0.01F : 0;
    training.gradient_of = [](std::int64_t, int, std::size_t) { return 1.0F; };
    const auto before = training.weights;
    training.lr = [](std::int64_t) { return 0.125; };
    training.run_to(1);
    // The first step of Adam is 1 per element.
    EXPECT_NEAR(before[0] - training.weights[0], 0.125 * 2, 1e-4);
    EXPECT_NEAR(before[100] - training.weights[100], 0.125 * 0.5, 1e-4);
    EXPECT_NEAR(before[200] - training.weights[200], 0.125, 1e-4);
  });
}

TEST(Tensors, LeaveABadBlockForOneStepOnly) {
  run_ranks(rank_counts().back(), [](Transport& world) {
    Training training(short_config("lamb"), world);
    training.gradient_of = of_noise();
    training.run_to(5);
    const auto before = training.weights;
    training.compute();
    training.gradient[70] = std::numeric_limits<float>::quiet_NaN();
    training.optimizer->step(0.01);
    EXPECT_GE(training.optimizer->stats().bad_blocks, 1U);
    EXPECT_EQ(before[70], training.weights[70]);
    EXPECT_TRUE(all_finite(training));
    // What was left moves again.
    training.run_to(training.next());
    EXPECT_NE(before[70], training.weights[70]);
  });
}

TEST(Tensors, BoundsThatContradictEachOtherAreRefused) {
  for (const char* algorithm : {"lamb", "one-bit-lamb"}) {
    OptimizerConfig config = short_config(algorithm);
    config.min_trust = 2;
    config.max_trust = 1;
    EXPECT_TRUE(says(refusal_of([&] { validated(config); }), {"min_trust = 2", "max_trust = 1"}));
  }
}

}  // namespace
}  // namespace laconic::testing
