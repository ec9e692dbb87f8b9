#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/optim/training.h"
#include "tests/support/refusal.h"

// Dense rounds with dense_codec: those of 1-bit Adam until step 6, of 0/1 Adam on steps 1, 2, 3, 5
// and 7.
namespace laconic::testing {
namespace {

constexpr const char* kCoded[] = {"one-bit-adam:dense_codec=int8", "one-bit-adam:dense_codec=int4",
                                  "zero-one-adam:dense_codec=int8",
                                  "zero-one-adam:dense_codec=int4"};

std::vector<State> dense_residuals(Optimizer& optimizer) {
  auto all = optimizer.state();
  std::erase_if(all, [](const State& state) {
    return state.name.find("/dense_") == std::string::npos || state.role != Role::kResidual;
  });
  return all;
}

std::vector<float> values_of(const std::vector<State>& states) {
  std::vector<float> all;
  for (const State& state : states) all.insert(all.end(), state.values.begin(), state.values.end());
  return all;
}

// What this rank's residuals add to a sum over ranks.
std::vector<double> owed(Training& training, int per_node, std::size_t bucket_elements) {
  std::vector<double> all(kElements);
  for (const State& state : dense_residuals(*training.optimizer)) {
    const auto bucket = static_cast<std::size_t>(state.name[6] - '0');
    const bool server = state.spread == Spread::kOwned;
    for (std::size_t k = 0; k < state.values.size(); ++k)
      all[bucket * bucket_elements + state.begin + k] +=
          static_cast<double>(state.values[k]) * (server          ? training.world.size()
                                                  : per_node == 2 ? 2
                                                                  : 1);
  }
  return all;
}

TEST(DenseCodec, LosesNothingOverTime) {
  for (const char* algorithm : {"one-bit-adam:dense_codec=int8", "one-bit-adam:dense_codec=int4"})
    for (const int per_node : {kFlat, 2})
      run_ranks(4, [&](Transport& world) {
        OptimizerConfig config = short_config(algorithm, per_node);
        config.beta1 = 0;  // m is the mean
        Training training(config, world);
        std::vector<double> given(kElements), taken(kElements);
        for (int t = 1; t <= 6; ++t) {
          training.compute();
          for (std::size_t k = 0; k < kElements; ++k)
            given[k] += static_cast<double>(training.gradient[k]);
          training.optimizer->step(0.01);
          for (std::size_t k = 0; k < kElements; ++k) {
            const std::string m = "bucket" + std::to_string(k / config.bucket_elements) + "/m";
            taken[k] += 4.0 * static_cast<double>(
                                  state_of(*training.optimizer, m)[k % config.bucket_elements]);
          }
        }
        const auto rest = owed(training, per_node, config.bucket_elements);
        std::vector<double> difference(kElements), all;
        for (std::size_t k = 0; k < kElements; ++k)
          difference[k] = given[k] - rest[k] - taken[k] / 4;
        world.gather(std::span<const double>(difference), all);
        for (std::size_t k = 0; k < kElements; ++k) {
          double sum = 0;
          for (std::size_t r = 0; r < 4; ++r) sum += all[r * kElements + k];
          ASSERT_NEAR(sum, 0, 1e-4) << algorithm << " " << k;
        }
      });
}

TEST(DenseCodec, DropsItsResidualsAtTheFreeze) {
  for (const std::string algorithm : kCoded)
    run_ranks(2, [&](Transport& world) {
      Training training(short_config(algorithm), world);
      training.run_to(algorithm.starts_with("one-bit") ? 6 : 8);
      const auto nonzero = [](float value) { return value != 0; };
      EXPECT_TRUE(std::ranges::any_of(values_of(dense_residuals(*training.optimizer)), nonzero));
      training.run_to(training.next());
      const auto after = values_of(dense_residuals(*training.optimizer));
      EXPECT_FALSE(after.empty());
      EXPECT_FALSE(std::ranges::any_of(after, nonzero)) << algorithm;
    });
}

TEST(DenseCodec, KeepsItsResidualsThroughOtherSteps) {
  run_ranks(2, [](Transport& world) {
    Training training(short_config("zero-one-adam:dense_codec=int4"), world);
    training.lr = [](std::int64_t step) { return step < 4 ? 0.02 : 0.001; };
    for (const std::int64_t dense : {3, 5}) {
      training.run_to(dense);
      ASSERT_EQ(training.optimizer->stats().kind, "dense");
      const auto before = values_of(dense_residuals(*training.optimizer));
      training.run_to(dense + 1);
      ASSERT_EQ(training.optimizer->stats().kind, "coded");
      EXPECT_EQ(before, values_of(dense_residuals(*training.optimizer)));
    }
  });
}

// The one-bit mean leaves such elements out; here they wait until enough has come together.
TEST(DenseCodec, KeepsTheResidualWhereTheVarianceIsZero) {
  constexpr std::size_t kSmall = 5;
  for (const std::string algorithm :
       {"one-bit-adam:dense_codec=int4", "zero-one-adam:dense_codec=int4"})
    run_ranks(2, [&](Transport& world) {
      Training training(short_config(algorithm), world);
      training.gradient_of = [](std::int64_t step, int rank, std::size_t k) {
        return k == kSmall ? 0.05F : k == 0 ? 1.0F : noise(step, rank, k);
      };
      const auto v = [&] { return state_of(*training.optimizer, "bucket0/v")[kSmall]; };
      const auto e = [&] {
        return state_of(*training.optimizer, "bucket0/dense_worker_residual")[kSmall];
      };
      training.run_to(1);
      EXPECT_EQ(v(), 0);
      EXPECT_EQ(e(), 0.05F);
      training.run_to(3);
      EXPECT_GT(v(), 0) << algorithm;
    });
}

TEST(DenseCodec, SendsTheResidualAloneWhereAGradientIsBad) {
  run_ranks(2, [](Transport& world) {
    OptimizerConfig config = short_config("one-bit-adam:dense_codec=int4");
    config.beta1 = 0;
    Training training(config, world);
    training.run_to(2);
    training.compute();
    Training same(config, world);
    same.run_to(2);
    same.compute();
    if (world.rank() == 1) {
      training.gradient[70] = std::nanf("");
      std::fill_n(same.gradient.begin() + 64, 64, 0.0F);
    }
    training.optimizer->step(0.01);
    same.optimizer->step(0.01);
    expect_same(bytes_of(training), bytes_of(same));
    EXPECT_EQ(training.optimizer->stats().bad_blocks, world.rank() == 1 ? 1U : 0U);
  });
}

TEST(DenseCodec, GivesWayToExactMeansWithTheirResidualsAdded) {
  run_ranks(2, [](Transport& world) {
    OptimizerConfig config = short_config("one-bit-adam:dense_codec=int4");
    config.guard = true;
    config.beta1 = 0;
    Training training(config, world);
    training.run_to(3);
    training.compute();
    auto sum = owed(training, kFlat, config.bucket_elements);
    for (std::size_t k = 0; k < kElements; ++k) sum[k] += static_cast<double>(training.gradient[k]);
    std::vector<double> all;
    world.gather(std::span<const double>(sum), all);
    training.optimizer->exchange_exactly(1);
    training.optimizer->step(0.01);
    EXPECT_EQ(training.optimizer->stats().exchange, "dense");
    for (std::size_t k = 0; k < 128; ++k)
      ASSERT_NEAR(state_of(*training.optimizer, "bucket0/m")[k], (all[k] + all[kElements + k]) / 2,
                  1e-5);
    for (const float value : values_of(dense_residuals(*training.optimizer))) ASSERT_EQ(value, 0);
    training.run_to(5);
    EXPECT_EQ(training.optimizer->stats().exchange, "coded");
  });
}

TEST(DenseCodec, IsOneThatLearns) {
  OptimizerConfig config;
  EXPECT_TRUE(says(refusal_of([&] { set(config, "dense_codec", "sign"); }),
                   {"dense_codec", "sign", "fp32, bf16, int8 or int4"}));
  set(config, "dense_codec", "int4");
  EXPECT_EQ(config.dense_codec, GradientCodec::kInt4);
}

// bf16 = true goes on to mean bf16, and what is asked for by name comes first.
TEST(DenseCodec, TakesBytesByItsName) {
  const auto bytes = [](GradientCodec codec, bool bf16) {
    std::uint64_t sent = 0;
    run_ranks(2, [&](Transport& world) {
      OptimizerConfig config = short_config("one-bit-adam");
      config.dense_codec = codec;
      config.bf16 = bf16;
      config.bucket_elements = 8192;
      Training training(config, world, {}, 8192);
      training.run_to(2);
      if (world.rank() == 0) sent = training.optimizer->stats().bytes_between;
    });
    return sent;
  };
  const auto fp32 = bytes(GradientCodec::kFp32, false);
  EXPECT_EQ(2 * bytes(GradientCodec::kFp32, true), fp32);
  EXPECT_EQ(2 * bytes(GradientCodec::kBf16, false), fp32);
  for (const bool bf16 : {false, true}) {
    EXPECT_EQ(bytes(GradientCodec::kInt8, bf16), 2 * (4096 + 4096 / 64 * 4 + 16));
    EXPECT_EQ(bytes(GradientCodec::kInt4, bf16), 2 * (2048 + 4096 / 64 * 4 + 16));
  }
}

}  // namespace
}  // namespace laconic::testing
