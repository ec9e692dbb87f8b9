#include <gtest/gtest.h>

#include "tests/optim/training.h"
#include "tests/support/refusal.h"

namespace laconic::testing {
namespace {

// The law of residuals: what one-bit steps left out is in the momentum after an exact one.
TEST(ExactSteps, AddTheResidualsOfCodedOnes) {
  for (const int per_node : {kFlat, 2})
    run_ranks(4, [per_node](Transport& world) {
      OptimizerConfig config = short_config(Algorithm::kOneBitAdam, per_node);
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
    OptimizerConfig config = short_config(Algorithm::kBirder);
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

}  // namespace
}  // namespace laconic::testing
