#include <gtest/gtest.h>

#include <cmath>

#include "tests/optim/training.h"
#include "tests/support/refusal.h"

namespace laconic::testing {
namespace {

// The law of residuals: what one-bit steps left out is in the momentum after an exact one.
TEST(ExactSteps, AddTheResidualsOfCodedOnes) {
  for (const int per_node : {kFlat, 2})
    run_ranks(4, [per_node](Transport& world) {
      OptimizerConfig config = short_config("one-bit-adam", per_node);
      config.guard = true;
      config.beta1 = 0;  // the next momentum is the mean of gradients and residuals
      Training training(config, world, {}, kElements);
      training.run_to(10);
      ASSERT_EQ(training.optimizer->stats().kind, "coded");
      std::vector<float> residual(kElements, 0.0F);
      for (const State& state : training.optimizer->state())
        for (std::size_t k = 0; k < state.values.size(); ++k)
          if (state.role == Role::kResidual) {
            const std::size_t bucket = static_cast<std::size_t>(state.name[6] - '0');
            const std::size_t at = bucket * config.bucket_elements + state.begin + k;
            const bool server = state.spread == Spread::kOwned;
            residual[at] += state.values[k] * (server ? 4 : per_node == 2 ? 2 : 1);
          }
      training.compute();
      for (std::size_t k = 0; k < kElements; ++k) residual[k] += training.gradient[k];
      const auto all = gathered(world, residual);
      training.optimizer->exchange_exactly(1);
      training.optimizer->step(training.lr(training.next()));
      EXPECT_EQ(training.optimizer->stats().kind, "dense");
      EXPECT_EQ(training.optimizer->stats().exchange, "dense");
      for (std::size_t k = 0; k < kElements; ++k) {
        const float mean = (all[0][k] + all[1][k] + all[2][k] + all[3][k]) / 4;
        const std::string m = "bucket" + std::to_string(k / config.bucket_elements) + "/m";
        ASSERT_NEAR(state_of(*training.optimizer, m)[k % config.bucket_elements], mean, 1e-5);
      }
      for (const State& state : training.optimizer->state()) {
        if (state.role != Role::kResidual) continue;
        for (const float value : state.values) ASSERT_EQ(value, 0);
      }
      training.run_to(12);
      EXPECT_EQ(training.optimizer->stats().kind, "coded");
      EXPECT_TRUE(equal_on_all(world, training.weights));
    });
}

TEST(ExactSteps, AreAskedForBetweenStepsAndWithGuard) {
  run_ranks(2, [](Transport& world) {
    OptimizerConfig config = short_config("birder");
    Training without(config, world);
    EXPECT_TRUE(says(refusal_of([&] { without.optimizer->exchange_exactly(2); }), {"guard"}));
    config.guard = true;
    Training with(config, world);
    with.run_to(1);
    with.optimizer->exchange_exactly(2);
    for (const char* kind : {"dense", "dense", "coded"}) {
      with.run_to(with.next());
      EXPECT_EQ(with.optimizer->stats().kind, kind);
    }
    EXPECT_EQ(with.optimizer->totals().dense, 2);
    EXPECT_TRUE(equal_on_all(world, with.weights));
  });
}

// A bad block costs its own gradient, not that of the whole tile.
TEST(ExactSteps, LeaveOutTheBadBlockAlone) {
  for (const char* algorithm : {"one-bit-adam", "zero-one-adam"})
    run_ranks(2, [algorithm](Transport& world) {
      OptimizerConfig config = short_config(algorithm);
      config.guard = true;
      config.bucket_elements = 1024;
      Training good(config, world), bad(config, world);
      for (Training* one : {&good, &bad}) {
        one->run_to(10);
        one->compute();
        one->optimizer->exchange_exactly(1);
      }
      if (world.rank() == 0) bad.gradient[70] = std::nanf("");
      for (Training* one : {&good, &bad}) one->optimizer->step(one->lr(one->next()));
      ASSERT_EQ(bad.optimizer->stats().kind, "dense");
      EXPECT_EQ(bad.optimizer->stats().bad_blocks, world.rank() == 0 ? 1U : 0U);
      for (std::size_t k = 0; k < kElements; ++k)
        ASSERT_EQ(good.weights[k] == bad.weights[k], k < 64 || k >= 128) << algorithm << " " << k;
      EXPECT_TRUE(equal_on_all(world, bad.weights));
    });
}

// An exact exchange of a compressed group comes in tiles of many blocks. 300 elements in scale
// blocks of 64, whose gradients differ by 10 from block to block, so that each block has a floor of
// its own.
class FloorsOfExactSteps : public ::testing::TestWithParam<std::pair<std::string, int>> {
 protected:
  static constexpr std::size_t kWeights = 300, kBlock = 64;
  static constexpr int kVarianceUpdates[] = {6, 5};  // until step 9: of 1-bit Adam and of 0/1 Adam

  static OptimizerConfig config() {
    OptimizerConfig config = short_config(GetParam().first, GetParam().second);
    config.bucket_elements = 512;
    config.guard = GetParam().second == kFlat;
    return config;
  }

  // D of every element: sqrt(max(v, 0.01 * mean of v over the block) / (1 - beta2^J)) + epsilon.
  static std::vector<double> denominators(std::span<const float> v) {
    const int updates = kVarianceUpdates[GetParam().first == "zero-one-adam"];
    std::vector<double> all(v.size());
    for (std::size_t begin = 0; begin < v.size(); begin += kBlock) {
      const auto block = v.subspan(begin, std::min(kBlock, v.size() - begin));
      double sum = 0;
      for (const float one : block) sum += one;
      const double floor = config().variance_floor * sum / static_cast<double>(block.size());
      for (std::size_t k = 0; k < block.size(); ++k)
        all[begin + k] =
            std::sqrt(std::max<double>(block[k], floor) / (1 - std::pow(config().beta2, updates))) +
            config().epsilon;
    }
    return all;
  }
};

TEST_P(FloorsOfExactSteps, AreThoseOfEachScaleBlock) {
  run_ranks(2, [](Transport& world) {
    Training training(config(), world, {}, kWeights);
    training.gradient_of = [](std::int64_t step, int rank, std::size_t k) {
      const float rare = k % 7 == 0 ? 1e-3F : 1.0F;  // its v lies below the floor
      return rare * noise(step, rank, k) / std::pow(10.0F, static_cast<float>(k / kBlock));
    };
    training.run_to(9);
    const std::vector<float> before(training.weights);
    if (config().guard) training.optimizer->exchange_exactly(1);
    training.run_to(10);
    const double lr = training.lr(10), decay = 1 - lr * config().weight_decay;
    const double rate = lr / (1 - std::pow(config().beta1, 10));
    const auto m = state_of(*training.optimizer, "bucket0/m");
    const auto d = denominators(state_of(*training.optimizer, "bucket0/v"));
    for (std::size_t k = 0; k < kWeights; ++k) {
      const double step = rate * static_cast<double>(m[k]) / d[k];
      ASSERT_NEAR(training.weights[k], static_cast<double>(before[k]) * decay - step,
                  1e-3 * std::abs(step) + 1e-6)
          << "element " << k;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, FloorsOfExactSteps,
                         ::testing::Values(std::pair<std::string, int>("one-bit-adam", kFlat),
                                           std::pair<std::string, int>("one-bit-adam", 2),
                                           std::pair<std::string, int>("zero-one-adam", kFlat),
                                           std::pair<std::string, int>("zero-one-adam", 2)));

}  // namespace
}  // namespace laconic::testing
