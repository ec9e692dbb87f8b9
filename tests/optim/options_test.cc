#include <gtest/gtest.h>

#include "laconic/checkpoint/checkpoint.h"
#include "tests/checkpoint/scratch.h"
#include "tests/optim/training.h"

namespace laconic::testing {
namespace {

// Between them, every option that changes what is computed or said.
OptimizerConfig with_one_scale_and_auto_schedules(OptimizerConfig config) {
  config.scale_block = 0;
  config.bf16 = true;
  config.exchange = ExchangeForm::kSingleRound;
  config.double_every = config.freeze_step = kAuto;
  config.beta2 = 0.9;  // looked at every 10 steps
  return config;
}

OptimizerConfig with_l1_scales_and_no_corrections(OptimizerConfig config) {
  config.scale_norm = kernels::Norm::kL1;
  config.exchange = ExchangeForm::kCount;
  config.bias_correction = false;
  config.variance_floor = 0;
  config.max_grad_norm = 5;
  config.skip = Skip::kStep;
  config.seed = 7;
  return config;
}

TEST_P(OptimizerSuite, ResumesBitForBitWithOtherOptions) {
  const Scratch scratch;
  for (const auto& with : {with_one_scale_and_auto_schedules, with_l1_scales_and_no_corrections})
    run([&](Transport& world) {
      const OptimizerConfig config = with(OptimizerSuite::config());
      const auto falling = [](std::int64_t t) { return t < 12 ? 0.02 : t < 18 ? 0.01 : 0.004; };
      Training whole(config, world, three_groups()), again(config, world, three_groups());
      whole.lr = again.lr = falling;
      whole.run_to(23);
      save_checkpoint(scratch / "run", *whole.optimizer);
      for (std::int64_t t = 24; t <= 50; ++t) {
        whole.run_to(t);
        const bool equal = equal_on_all(world, whole.weights);
        EXPECT_TRUE(equal || !synced(*whole.optimizer)) << "step " << t;
      }
      EXPECT_EQ(load_checkpoint(scratch / "run", *again.optimizer), Resume::kExact);
      again.run_to(50);
      expect_same(bytes_of(whole), bytes_of(again));
      EXPECT_TRUE(all_finite(whole));
      if (method().name == "one-bit-adam") {
        EXPECT_GT(whole.optimizer->totals().coded, 0);
      }
    });
}

}  // namespace
}  // namespace laconic::testing
