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

// An exchange that outlives its step runs on a thread of its own, and so does the heartbeat.
void expect_no_allocations(Transport& world, const char* codec, std::int64_t delay) {
  OptimizerConfig config = short_config("local-steps");
  config.every = 8;
  config.fragments = 2;
  config.delay = delay;
  config.total_steps = 1000;
  set(config, "codec", codec);
  Training training(config, world, three_groups());
  std::vector<int> all;
  const int here = 0;
  const auto meet = [&] { world.gather(std::span(&here, 1), all); };
  training.run_to(64);
  meet();
  meet();
  const std::uint64_t before = allocations_of_all_threads();
  meet();
  training.run_to(96);
  meet();
  EXPECT_EQ(allocations_of_all_threads() - before, 0U) << codec << ", delay " << delay;
  meet();
}

TEST(LocalSteps, AllocateNothingOnAnyThread) {
  if (engine_limits().allocates) GTEST_SKIP() << "this engine allocates";
  for (const int ranks : rank_counts())
    run_ranks(ranks, [](Transport& world) {
      for (const char* codec : {"fp32", "int4", "sign", "top-k"})
        for (const std::int64_t delay : {0, 3}) expect_no_allocations(world, codec, delay);
    });
}

}  // namespace
}  // namespace laconic::testing
