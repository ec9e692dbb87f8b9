#include "laconic/optim/shards.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "laconic/core/error.h"
#include "tests/optim/training.h"

namespace laconic::testing {
namespace {

constexpr std::size_t kFirst = 130, kSecond = 70, kBoth = 40;  // two tensors, and one that all hold

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> all(count);
  for (float& one : all) one = normal(random);
  return all;
}

// The part of each tensor that a shard of two holds; the last tensor is whole.
std::vector<float> part_of(const std::vector<float>& whole, int shard) {
  const auto half = [&](std::size_t begin, std::size_t count, std::vector<float>& out) {
    const std::size_t first = (count + 1) / 2, from = shard == 0 ? 0 : first;
    const std::size_t to = shard == 0 ? first : count;
    for (std::size_t i = from; i < to; ++i) out.push_back(whole[begin + i]);
  };
  std::vector<float> part;
  half(0, kFirst, part);
  half(kFirst, kSecond, part);
  part.insert(part.end(), whole.end() - kBoth, whole.end());
  return part;
}

struct Shard {
  Shard(const std::vector<float>& whole, int index, Transport& shards)
      : weights(part_of(whole, index)), gradient(weights.size()) {
    const std::size_t first = index == 0 ? (kFirst + 1) / 2 : kFirst / 2;
    const std::size_t second = index == 0 ? (kSecond + 1) / 2 : kSecond / 2;
    model = {
        .weights = weights,
        .gradient = gradient,
        .groups = {{.name = "cut", .elements = first + second, .holder = index},
                   {.name = "held by both", .elements = kBoth, .holder = 0}},
        .ranges = {{"first", 0, first}, {"second", first, second}, {"both", first + second, kBoth}},
        .shards = &shards};
  }
  std::vector<float> weights, gradient;
  Model model;
};

// Two nodes of two shards, beside the whole model on two nodes.
void expect_like_the_whole(const OptimizerConfig& config) {
  run_ranks(4, [&](Transport& world) {
    const int shard = world.rank() % 2, node = world.rank() / 2;
    const auto nodes = world.split(shard), shards = world.split(2 + node);
    std::vector<float> whole = numbers(kFirst + kSecond + kBoth, 1), gradient(whole.size());
    Shard part(whole, shard, *shards);
    const Model model{
        .weights = whole,
        .gradient = gradient,
        .groups = {{.name = "cut", .elements = kFirst + kSecond},
                   {.name = "held by both", .elements = kBoth}},
        .ranges = {
            {"first", 0, kFirst}, {"second", kFirst, kSecond}, {"both", kFirst + kSecond, kBoth}}};
    const auto ours = make_optimizer(config, part.model, *nodes);
    const auto theirs = make_optimizer(config, model, *nodes);
    for (unsigned step = 1; step <= 6; ++step) {
      std::ranges::copy(numbers(whole.size(), 100 * step + static_cast<unsigned>(node)),
                        gradient.begin());
      std::ranges::copy(part_of(gradient, shard), part.gradient.begin());
      ours->step(1e-2);
      theirs->step(1e-2);
      EXPECT_NEAR(ours->stats().grad_norm, theirs->stats().grad_norm,
                  1e-6 * theirs->stats().grad_norm);
    }
    const std::vector<float> expected = part_of(whole, shard);
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(part.weights[i], expected[i], 2e-6 * (1 + std::abs(expected[i]))) << i;
  });
}

TEST(Shards, ClippingUsesTheNormOfTheWholeModel) {
  OptimizerConfig config = config_named("adamw");
  config.max_grad_norm = 0.5;
  expect_like_the_whole(config);
}

TEST(Shards, TrustRatiosAreThoseOfWholeTensors) { expect_like_the_whole(config_named("lamb")); }

TEST(Shards, APartThatTwoHoldGetsTheSameRandomNumbersAndOthersDoNot) {
  run_ranks(4, [](Transport& world) {
    const int index = world.rank() % 2;
    const auto nodes = world.split(index), shards = world.split(2 + world.rank() / 2);
    Shard part(numbers(kFirst + kSecond + kBoth, 1), index, *shards);
    OptimizerConfig config = config_named("birder");
    config.verify_every = 1;
    const auto optimizer = make_optimizer(config, part.model, *nodes);
    for (unsigned step = 1; step <= 8; ++step) {
      const unsigned seed = 100 * step + static_cast<unsigned>(world.rank() / 2);
      std::ranges::copy(part_of(numbers(kFirst + kSecond + kBoth, seed), index),
                        part.gradient.begin());
      optimizer->step(1e-2);
    }
    const Shards keys(part.model);
    const auto mine = std::vector<std::uint32_t>{keys.key(0, 0, 0), keys.key(1, 0, 1)};
    std::vector<std::uint32_t> all;
    shards->gather(std::span<const std::uint32_t>(mine), all);
    EXPECT_NE(all[0], all[2]);
    EXPECT_EQ(all[1], all[3]);
  });
}

TEST(Shards, APartThatTwoHoldAndThatDiffersIsFound) {
  run_ranks(4, [](Transport& world) {
    const int index = world.rank() % 2;
    const auto nodes = world.split(index), shards = world.split(2 + world.rank() / 2);
    Shard part(numbers(kFirst + kSecond + kBoth, 1), index, *shards);
    OptimizerConfig config = config_named("sgdm");
    config.verify_every = 1;
    const auto optimizer = make_optimizer(config, part.model, *nodes);
    part.gradient.back() = static_cast<float>(1 + index);
    try {
      optimizer->step(1e-2);
      FAIL() << "nothing was found";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("hold both"), std::string::npos) << error.what();
    }
  });
}

}  // namespace
}  // namespace laconic::testing
