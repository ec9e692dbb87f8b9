// Checkpoints of an earlier version (commit 8612471) go on bit for bit. tests/checkpoint/earlier has,
// for each method of that time, one of step 13 (inside an interval of local steps where there are
// such) and the one that the same run wrote at step 25.
#include <gtest/gtest.h>

#include "laconic/checkpoint/checkpoint.h"
#include "tests/optim/training.h"

namespace laconic::testing {
namespace {

class Earlier : public ::testing::TestWithParam<const char*> {};

TEST_P(Earlier, CheckpointsGoOnBitForBit) {
  const std::filesystem::path folder =
      std::filesystem::path(LACONIC_SOURCE_DIR) / "tests/checkpoint/earlier" / GetParam();
  OptimizerConfig config = short_config(GetParam());
  const OptimizerConfig defaults;  // of options that are newer than the files
  config.quant_block = defaults.quant_block;
  config.feedback_reset = defaults.feedback_reset;
  run_ranks(2, [&](Transport& world) {
    Training resumed(config, world, three_groups());
    Training wanted(config, world, three_groups());
    ASSERT_EQ(load_checkpoint(folder / "step13", *resumed.optimizer), Resume::kExact);
    ASSERT_EQ(load_checkpoint(folder / "step25", *wanted.optimizer), Resume::kExact);
    EXPECT_EQ(resumed.optimizer->stats().step, 13);
    EXPECT_NE(bytes_of(resumed), bytes_of(wanted));
    resumed.run_to(25);
    expect_same(bytes_of(resumed), bytes_of(wanted));
  });
}

INSTANTIATE_TEST_SUITE_P(Methods, Earlier,
                         ::testing::Values("sgdm", "adamw", "one-bit-adam", "zero-one-adam",
                                           "birder"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace laconic::testing
