#include <gtest/gtest.h>

#include <cmath>

#include "tests/optim/training.h"

namespace laconic::testing {
namespace {

struct Places {
  int ranks, per_node;
};

std::vector<Places> places() {
  std::vector<Places> all;
  for (const Setting& one : settings())
    if (one.algorithm == "adamw") all.push_back({one.ranks, one.per_node});
  return all;
}

// Each law on every number of ranks.
template <typename Law>
void everywhere(const Law& law) {
  for (const Places& place : places())
    run_ranks(place.ranks, [&](Transport& world) {
      SCOPED_TRACE(std::to_string(place.ranks) + " ranks");
      law(world, place.per_node);
    });
}

std::vector<Group> exact_groups() {
  auto groups = three_groups();
  for (Group& group : groups) group.compress = false;
  return groups;
}

void expect_equal_runs(Training& a, Training& b) {
  for (std::int64_t t = 1; t <= 50; ++t) {
    a.run_to(t);
    b.run_to(t);
    ASSERT_EQ(a.weights, b.weights) << "step " << t;
  }
}

TEST(Laws, ZeroOneAdamWithAnExactMeanAndAVarianceStepEveryStepIsAdamW) {
  everywhere([](Transport& world, int per_node) {
    OptimizerConfig config = short_config("zero-one-adam", per_node);
    config.variance_kappa = 1'000'000;
    config.variance_freeze_step = 1000;
    Training zero_one(config, world, exact_groups());
    Training adamw(short_config("adamw", per_node), world, exact_groups());
    expect_equal_runs(zero_one, adamw);
  });
}

TEST(Laws, OneBitAdamThatNeverFreezesIsAdamW) {
  everywhere([](Transport& world, int per_node) {
    OptimizerConfig config = short_config("one-bit-adam", per_node);
    config.freeze_step = 1000;
    Training one_bit(config, world, three_groups());
    Training adamw(short_config("adamw", per_node), world, three_groups());
    expect_equal_runs(one_bit, adamw);
  });
}

TEST(Laws, WithAnExactMeanZeroOneAdamFollowsOneBitAdam) {
  everywhere([](Transport& world, int per_node) {
    OptimizerConfig config = short_config("zero-one-adam", per_node);
    config.variance_kappa = 1'000'000;
    config.max_interval = 1;
    config.freeze_step = config.variance_freeze_step;
    Training zero_one(config, world, exact_groups());
    config.algorithm = "one-bit-adam";
    Training one_bit(config, world, exact_groups());
    // The noise alone: a difference must not come back through the gradient.
    zero_one.gradient_of = one_bit.gradient_of = [](std::int64_t t, int rank, std::size_t k) {
      return noise(t, rank, k);
    };
    for (std::int64_t t = 1; t <= 100; ++t) {
      zero_one.run_to(t);
      one_bit.run_to(t);
      for (std::size_t k = 0; k < kElements; ++k)
        ASSERT_NEAR(zero_one.weights[k], one_bit.weights[k],
                    1e-6 * (1 + std::abs(one_bit.weights[k])))
            << "step " << t << ", weight " << k;
    }
    EXPECT_EQ(zero_one.optimizer->totals().coded, one_bit.optimizer->totals().coded);
  });
}

TEST(Laws, WhatIsNotCompressedKeepsNoResidual) {
  everywhere([](Transport& world, int per_node) {
    for (const std::string algorithm : {"one-bit-adam", "zero-one-adam"}) {
      Training training(short_config(algorithm, per_node), world, exact_groups());
      training.run_to(24);  // a sync
      for (const State& state : training.optimizer->state()) {
        EXPECT_EQ(state.name.find("residual"), std::string::npos) << state.name;
        if (state.name.find("pending") == std::string::npos) continue;
        for (const float x : state.values) ASSERT_EQ(x, 0) << state.name;
      }
    }
  });
}

std::size_t state_bytes(Optimizer& optimizer) {
  std::size_t bytes = 0;
  for (const State& state : optimizer.state()) bytes += state.values.size_bytes();
  return bytes;
}

TEST(Laws, StateIsAsLargeAsPromised) {
  everywhere([](Transport& world, int per_node) {
    const std::size_t elements = 64 * 12 * 4;  // chunks of whole words on 1, 2, 3 and 4 ranks
    const double share = 4.0 / world.size();
    const std::pair<std::string, double> most[] = {
        {"sgdm", 4},   {"adamw", 8}, {"one-bit-adam", 12 + share}, {"zero-one-adam", 16 + share},
        {"birder", 8}, {"lion", 4},  {"distributed-lion", 4}};
    for (const auto& [algorithm, bytes] : most) {
      OptimizerConfig config = short_config(algorithm, per_node);
      config.bucket_elements = elements;
      Training training(config, world, {}, elements);
      training.run_to(kSteps);
      EXPECT_LE(static_cast<double>(state_bytes(*training.optimizer)),
                bytes * static_cast<double>(elements))
          << algorithm;
    }
  });
}

}  // namespace
}  // namespace laconic::testing
