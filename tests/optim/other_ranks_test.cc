#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "laconic/checkpoint/checkpoint.h"
#include "tests/checkpoint/scratch.h"
#include "tests/optim/training.h"

// Ranks are threads here: their number changes on the way.
namespace laconic::testing {
namespace {

constexpr std::size_t kWeights = 256;  // one bucket, whose blocks lie alike on 1, 2 and 4 ranks

struct Resumption {
  std::string algorithm;
  std::int64_t step;  // where the first run stops
};

class OtherRanksResume : public ::testing::TestWithParam<Resumption> {};

TEST_P(OtherRanksResume, GoesOnFromFourToTwoToThreeRanks) {
  const auto [algorithm, step] = GetParam();
  const Scratch scratch;
  std::int64_t last = 0;
  std::filesystem::path from;
  for (const auto& [ranks, per_node] : {std::pair{4, 2}, {2, kFlat}, {3, kFlat}, {4, kFlat}}) {
    const auto to = scratch / std::to_string(last);
    const std::int64_t until = last + step;
    run_ranks(ranks, [&, per_node = per_node, algorithm = algorithm](Transport& world) {
      Training training(short_config(algorithm, per_node), world, three_groups());
      if (last > 0) {
        if (ranks == 2) training.run_to(7);  // what it held before must not matter
        EXPECT_EQ(load_checkpoint(from, *training.optimizer), Resume::kRedistributed);
        EXPECT_EQ(training.optimizer->stats().step, last);
        EXPECT_TRUE(equal_on_all(world, training.weights));
      }
      for (std::int64_t t = last + 1; t <= until; ++t) {
        training.run_to(t);
        const bool equal = equal_on_all(world, training.weights);
        EXPECT_TRUE(equal || !synced(*training.optimizer)) << "step " << t;
      }
      EXPECT_TRUE(all_finite(training));
      save_checkpoint(to, *training.optimizer);
    });
    from = to;
    last = until;
  }
}

std::vector<Resumption> resumptions() {
  std::vector<Resumption> all;
  for (const char* algorithm : kAlgorithms)
    for (const std::int64_t step : {4, 11, 18}) all.push_back({algorithm, step});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, OtherRanksResume, ::testing::ValuesIn(resumptions()),
                         [](const auto& info) {
                           return letters_of(info.param.algorithm) + "_after_" +
                                  std::to_string(info.param.step);
                         });

// What the ranks of a run held when it was saved, put together as section 7 of the algorithms says.
struct Before {
  std::vector<double> momentum, unsaid;  // mean of m; mean worker residual + server residual
  std::vector<float> variance, synced;
  double rate_sum = 0, kept = 1, reach = 0;
};

Before save(const std::filesystem::path& path, const OptimizerConfig& config, std::int64_t step) {
  Before before;
  run_ranks(4, [&](Transport& world) {
    Training training(config, world, {}, kWeights);
    training.run_to(step);
    save_checkpoint(path, *training.optimizer);
    const bool zero_one = config.algorithm == "zero-one-adam";
    Optimizer& optimizer = *training.optimizer;
    const auto m = gathered(world, state_of(optimizer, "bucket0/m"));
    const auto worker = gathered(
        world, state_of(optimizer, zero_one ? "bucket0/pending" : "bucket0/worker_residual"));
    const auto server = gathered(world, state_of(optimizer, "bucket0/server_residual"));
    if (world.rank() != 0) return;
    for (std::size_t k = 0; k < kWeights; ++k) {
      before.momentum.push_back(0);
      before.unsaid.push_back(server[k / 64][k % 64]);
      for (std::size_t r = 0; r < 4; ++r) {
        before.momentum[k] += m[r][k] / 4.0;
        before.unsaid[k] += worker[r][k] / 4.0;
      }
    }
    const auto v = state_of(optimizer, "bucket0/v");
    before.variance.assign(v.begin(), v.end());  // empty: it has none
    before.synced.resize(kWeights);
    optimizer.synced_weights(before.synced);
    for (const State& state : optimizer.state())
      if (state.name == "bucket0/scalars")
        before.rate_sum = state.scalars[0], before.kept = state.scalars[1],
        before.reach = state.scalars[2];
  });
  return before;
}

OptimizerConfig one_bucket(std::string algorithm) {
  OptimizerConfig config = short_config(algorithm);
  config.bucket_elements = kWeights;
  return config;
}

// Resumes on 2 ranks, in an optimizer that was used before, and hands it over as it is then.
void resume(const std::filesystem::path& path, const OptimizerConfig& config,
            const std::function<void(Training&)>& look) {
  run_ranks(2, [&](Transport& world) {
    Training training(config, world, {}, kWeights);
    training.run_to(15);
    EXPECT_EQ(load_checkpoint(path, *training.optimizer), Resume::kRedistributed);
    for (const State& state : training.optimizer->state())
      if (state.name.ends_with("residual") || state.name.ends_with("pending")) {
        for (const float x : state.values) ASSERT_EQ(x, 0) << state.name;
      }
    look(training);
  });
}

TEST(Unsaid, IsEveryWorkersResidualWhereGradientsAreCoded) {
  const Scratch scratch;
  for (const char* algorithm : {"sgdm+int8+full", "adamw+int4+ema"}) {
    const OptimizerConfig config = one_bucket(algorithm);
    const Before before = save(scratch / algorithm, config, 12);
    run_ranks(2, [&](Transport& world) {
      Training training(config, world, {}, kWeights);
      training.run_to(15);
      EXPECT_EQ(load_checkpoint(scratch / algorithm, *training.optimizer), Resume::kRedistributed);
      const auto e = state_of(*training.optimizer, "bucket0/worker_residual");
      ASSERT_EQ(e.size(), kWeights);
      double size = 0;
      for (std::size_t k = 0; k < kWeights; ++k) {
        ASSERT_NEAR(e[k], before.unsaid[k], 1e-6) << algorithm << " " << k;
        size += std::abs(before.unsaid[k]);
      }
      EXPECT_GT(size, 0);
      for (const float x : state_of(*training.optimizer, "bucket0/server_residual"))
        ASSERT_EQ(x, 0);
    });
  }
}

TEST(Unsaid, GoesIntoTheMomentumOfOneBitAdam) {
  const Scratch scratch;
  const OptimizerConfig config = one_bucket("one-bit-adam");
  const Before before = save(scratch / "run", config, 12);
  resume(scratch / "run", config, [&](Training& training) {
    const auto m = state_of(*training.optimizer, "bucket0/m");
    for (std::size_t k = 0; k < kWeights; ++k) {
      ASSERT_NE(before.unsaid[k], 0);
      ASSERT_NEAR(m[k], before.momentum[k] + before.unsaid[k] / config.beta1, 1e-6) << k;
      ASSERT_EQ(training.weights[k], before.synced[k]);
    }
  });
}

TEST(Unsaid, GoesIntoTheMomentumOfZeroOneAdamAtInterval1) {
  const Scratch scratch;
  const OptimizerConfig config = one_bucket("zero-one-adam");
  const Before before = save(scratch / "run", config, 10);
  ASSERT_GT(before.reach, 0);
  resume(scratch / "run", config, [&](Training& training) {
    const auto m = state_of(*training.optimizer, "bucket0/m");
    for (std::size_t k = 0; k < kWeights; ++k) {
      const double expected = before.momentum[k] + before.unsaid[k] / (config.beta1 * before.reach);
      ASSERT_NEAR(m[k], expected, 1e-6 * (1 + std::abs(expected))) << k;
      ASSERT_EQ(training.weights[k], before.synced[k]);
    }
  });
}

TEST(Unsaid, GoesIntoTheWeightsOfZeroOneAdamInsideALocalInterval) {
  const Scratch scratch;
  const OptimizerConfig config = one_bucket("zero-one-adam");
  const Before before = save(scratch / "run", config, 18);
  ASSERT_GT(before.rate_sum, 0);
  ASSERT_LT(before.kept, 1);
  resume(scratch / "run", config, [&](Training& training) {
    const auto m = state_of(*training.optimizer, "bucket0/m");
    const double correction = 1 - std::pow(config.beta2, 5);  // of 5 variance steps
    for (std::size_t k = 0; k < kWeights; ++k) {
      double block_mean = 0;
      for (std::size_t j = k / 64 * 64; j < k / 64 * 64 + 64; ++j)
        block_mean += before.variance[j] / 64.0;
      const double v = std::max<double>(before.variance[k], block_mean * config.variance_floor);
      const double divisor = std::sqrt(v / correction) + config.epsilon;
      ASSERT_NEAR(training.weights[k], before.kept * before.synced[k] - before.unsaid[k] / divisor,
                  1e-5)
          << k;
      ASSERT_NEAR(m[k], before.momentum[k], 1e-6);
    }
    std::vector<float> synced(kWeights);
    training.optimizer->synced_weights(synced);
    EXPECT_EQ(synced, training.weights);
  });
}

}  // namespace
}  // namespace laconic::testing
