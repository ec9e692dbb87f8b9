#include <gtest/gtest.h>

#include "tests/optim/training.h"
#include "tests/support/allocations.h"

namespace laconic::testing {
namespace {

TEST_P(OptimizerSuite, AllocatesNothingInASteadyStep) {
  if (engine_limits().allocates) GTEST_SKIP() << "this engine allocates";
  run([](Transport& world) {
    for (const double norm : {0.0, 1.0}) {
      OptimizerConfig config = OptimizerSuite::config();
      config.max_grad_norm = norm;
      config.skip = norm > 0 ? Skip::kStep : Skip::kBlock;
      Training training(config, world, three_groups());
      training.run_to(29);  // every kind of step was taken
      for (std::int64_t t = 30; t <= 45; ++t) {
        training.compute();
        const std::uint64_t before = allocations();
        training.optimizer->step(0.01);
        EXPECT_EQ(allocations() - before, 0U)
            << "step " << t << ", " << training.optimizer->stats().kind << ", clipped at " << norm;
      }
    }
  });
}

}  // namespace
}  // namespace laconic::testing
