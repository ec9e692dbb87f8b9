#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "laconic/core/hash.h"
#include "tests/optim/training.h"

namespace laconic::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::int64_t kStormSteps = 300;
#else
constexpr std::int64_t kStormSteps = 5000;
#endif
constexpr int kRanks = 4;
constexpr std::size_t kWeights = 2000, kBlock = 64, kBucket = 512;
constexpr float kLargest = 1e16F;  // beyond it a gradient counts as not finite

// Groups begin where blocks do in their buckets: 1,400 in three buckets, 200, 400.
std::vector<Group> storm_groups() {
  return {{.name = "body", .elements = 1400, .weight_decay = 0.01},
          {.name = "bias", .elements = 200, .compress = false},
          {.name = "head", .elements = 400, .lr_factor = 0.5}};
}

struct Storm {
  std::string algorithm;
  ExchangeForm form;
  const char* name;
};
void PrintTo(const Storm& storm, std::ostream* out) { *out << storm.name; }

OptimizerConfig storm_config(const Storm& storm) {
  OptimizerConfig config;
  config.algorithm = storm.algorithm;
  config.exchange = storm.form;
  if (storm.form == ExchangeForm::kCount) config.form = RandomForm::kCount;
  config.weight_decay = 0.01;
  config.total_steps = kStormSteps;
  config.beta2 = 0.99;
  config.momentum_sync_every = 10;
  config.scale_block = kBlock;
  config.bucket_elements = kBucket;
  return config;
}

constexpr float kHostile[] = {std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity(),
                              1e17F,
                              -3e38F,
                              std::numeric_limits<float>::max(),
                              9e15F,  // large, and allowed
                              -9e15F,
                              1e-40F,  // denormal
                              -std::numeric_limits<float>::denorm_min()};

bool is_bad(float g) { return !(std::abs(g) <= kLargest); }

// What one rank meets in one attempt at a step: the same wherever it is asked.
struct Gust {
  int rank = -1;  // nobody
  std::vector<std::pair<std::size_t, float>> gradients;
};

Gust gust_at(std::int64_t attempt) {
  auto draw = [attempt, number = std::uint64_t{0}](std::uint64_t below) mutable {
    const std::uint64_t key[] = {static_cast<std::uint64_t>(attempt), number++};
    return hash64(std::as_bytes(std::span(key))) % below;
  };
  Gust gust;
  if (draw(3) != 0) return gust;
  gust.rank = static_cast<int>(draw(kRanks));
  for (std::uint64_t left = 1 + draw(3); left > 0; --left) {
    const float value = kHostile[draw(std::size(kHostile))];
    const std::size_t at = draw(kWeights), count = draw(4) == 0 ? 1 + draw(200) : 1;
    for (std::size_t k = at; k < std::min(at + count, kWeights); ++k)
      gust.gradients.emplace_back(k, value);
  }
  return gust;
}

// Blocks, by (bucket, block in it), that hold something bad.
std::uint64_t bad_blocks_of(const Gust& gust, const Optimizer& optimizer) {
  std::set<std::pair<int, std::size_t>> blocks;
  std::map<std::size_t, float> last;  // a later one replaces an earlier one
  for (const auto& [k, value] : gust.gradients) last[k] = value;
  for (const auto& [k, value] : last)
    for (int b = 0; b < optimizer.buckets() && is_bad(value); ++b)
      if (const NamedRange range = optimizer.bucket(b); k - range.begin < range.count)
        blocks.emplace(b, (k - range.begin) / kBlock);
  return blocks.size();
}

class GradientStorm : public ::testing::TestWithParam<Storm> {
 protected:
  // Gradients stay small themselves, whatever became of the weights.
  static void blow(Training& training, std::int64_t attempt, const Gust& gust) {
    const auto shift = static_cast<std::size_t>(attempt * 37 + training.world.rank() * 1009);
    for (std::size_t k = 0; k < kWeights; ++k)
      training.gradient[k] =
          0.3F * std::clamp(training.weights[k], -1.0F, 1.0F) + noise(0, 0, (k + shift) % kWeights);
    if (gust.rank == training.world.rank())
      for (const auto& [k, value] : gust.gradients) training.gradient[k] = value;
  }

  static void expect_sane(Training& training, std::int64_t attempt) {
    ASSERT_TRUE(all_finite(training)) << "attempt " << attempt;
    if (synced(*training.optimizer)) {
      ASSERT_TRUE(equal_on_all(training.world, training.weights)) << "attempt " << attempt;
    }
  }
};

TEST_P(GradientStorm, LeavesStateFiniteReplicasEqualAndCountsEveryBadBlock) {
  run_ranks(kRanks, [](Transport& world) {
    Training training(storm_config(GetParam()), world, storm_groups(), kWeights);
    const Optimizer& optimizer = *training.optimizer;
    std::uint64_t wanted = 0;
    for (std::int64_t step = 1; step <= kStormSteps; ++step) {
      const Gust gust = gust_at(step);
      blow(training, step, gust);
      training.optimizer->step(training.lr(step));
      // An exact mean is bad on all ranks, what is coded or silent on its own alone.
      const bool meets = optimizer.stats().kind == "dense" || gust.rank == world.rank();
      const std::uint64_t bad = meets ? bad_blocks_of(gust, optimizer) : 0;
      ASSERT_EQ(optimizer.stats().bad_blocks, bad)
          << "step " << step << ", " << optimizer.stats().kind << ", rank " << world.rank();
      wanted += bad;
      expect_sane(training, step);
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(optimizer.totals().bad_blocks, wanted);
    EXPECT_EQ(optimizer.totals().steps, kStormSteps);
    EXPECT_EQ(optimizer.totals().skipped, 0);
    training.optimizer->synchronize();
    EXPECT_TRUE(equal_on_all(world, training.weights));
  });
}

TEST_P(GradientStorm, SkipsExactlyTheBadStepsWhereAsked) {
  run_ranks(kRanks, [](Transport& world) {
    OptimizerConfig config = storm_config(GetParam());
    config.skip = Skip::kStep;
    Training training(config, world, storm_groups(), kWeights);
    std::int64_t skipped = 0;
    for (std::int64_t attempt = 1; attempt <= kStormSteps / 5; ++attempt) {
      const Gust gust = gust_at(attempt);
      blow(training, attempt, gust);
      training.optimizer->step(training.lr(attempt));
      skipped += bad_blocks_of(gust, *training.optimizer) > 0 ? 1 : 0;
      ASSERT_EQ(training.optimizer->totals().skipped, skipped) << "attempt " << attempt;
      ASSERT_EQ(training.optimizer->stats().step, attempt - skipped);
      ASSERT_EQ(training.optimizer->stats().bad_blocks, 0U);
      expect_sane(training, attempt);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(skipped, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, GradientStorm,
    ::testing::Values(Storm{"sgdm", {}, "Sgdm"}, Storm{"adamw", {}, "AdamW"},
                      Storm{"one-bit-adam", {}, "OneBitAdam"},
                      Storm{"zero-one-adam", {}, "ZeroOneAdam"},
                      Storm{"birder", ExchangeForm::kTwoRound, "BirderTwoRound"},
                      Storm{"birder", ExchangeForm::kSingleRound, "BirderSingleRound"},
                      Storm{"birder", ExchangeForm::kCount, "BirderCount"},
                      Storm{"lion", {}, "Lion"}, Storm{"distributed-lion", {}, "DistributedLion"},
                      Storm{"distributed-lion", ExchangeForm::kCount, "DistributedLionCount"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace laconic::testing
