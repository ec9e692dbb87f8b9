#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/optim/training.h"

namespace laconic::testing {
namespace {

constexpr double kMost = 5;

double squares(std::span<const float> values) {
  double sum = 0;
  for (const float x : values) sum += static_cast<double>(x) * x;
  return sum;
}

// The root of the mean square norm over ranks; the norm of the mean, as PyTorch has it, where
// nothing is compressed.
double norm_over_ranks(Transport& world, std::span<const float> gradient, bool of_the_mean) {
  const auto all = gathered(world, gradient);
  std::vector<float> mean(gradient.size());
  double sum = 0;
  for (const auto& one : all) {
    sum += squares(one) / world.size();
    for (std::size_t k = 0; k < mean.size(); ++k)
      mean[k] += one[k] / static_cast<float>(world.size());
  }
  return std::sqrt(of_the_mean ? squares(mean) : sum);
}

TEST_P(OptimizerSuite, ClipsByTheNormOfTheWholeModel) {
  run([](Transport& world) {
    OptimizerConfig config = OptimizerSuite::config();
    Training plain(config, world, three_groups());
    config.max_grad_norm = kMost;
    Training clipped(config, world, three_groups());
    for (std::int64_t t = 1; t <= kSteps; ++t) {
      // On every third step there is nothing to clip.
      const float size = t % 3 == 0 ? 0.01F : 1;
      for (std::size_t k = 0; k < kElements; ++k)
        plain.gradient[k] = clipped.gradient[k] = size * noise(t, world.rank(), k);
      const double over_ranks = norm_over_ranks(world, clipped.gradient, dense());
      const double own = std::sqrt(squares(clipped.gradient));
      clipped.optimizer->step(0.01);
      const StepStats& stats = clipped.optimizer->stats();
      const double expected = stats.kind == "silent" || delayed() ? own : over_ranks;
      ASSERT_NEAR(stats.grad_norm, expected, 1e-5 * expected) << "step " << t << " " << stats.kind;
      const double factor = std::min(1.0, kMost / (stats.grad_norm + 1e-6));
      EXPECT_EQ(factor < 1, t % 3 != 0);
      for (float& g : plain.gradient) g *= static_cast<float>(factor);
      plain.optimizer->step(0.01);
      // An exact mean is scaled after it was taken, so it may round differently.
      for (std::size_t k = 0; k < kElements; ++k)
        ASSERT_NEAR(clipped.weights[k], plain.weights[k], dense() ? 1e-5 : 0) << t << " " << k;
    }
  });
}

TEST_P(OptimizerSuite, WhatIsNotFiniteDoesNotEnterTheNorm) {
  run([](Transport& world) {
    OptimizerConfig config = OptimizerSuite::config();
    config.max_grad_norm = kMost;
    Training training(config, world, three_groups());
    for (std::int64_t t = 1; t <= kSteps; ++t) {
      training.compute();
      if (world.rank() == 0) training.gradient[5] = std::numeric_limits<float>::infinity();
      training.optimizer->step(0.01);
      ASSERT_TRUE(std::isfinite(training.optimizer->stats().grad_norm));
      ASSERT_TRUE(all_finite(training)) << "step " << t;
    }
    training.optimizer->synchronize();
    EXPECT_TRUE(equal_on_all(world, training.weights));
  });
}

}  // namespace
}  // namespace laconic::testing
