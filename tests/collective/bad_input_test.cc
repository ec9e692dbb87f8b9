#include <gtest/gtest.h>

#include "laconic/device/host.h"
#include "tests/support/means.h"
#include "tests/support/thrown.h"

namespace laconic::testing {
namespace {

class BadInput : public ::testing::TestWithParam<int> {
 protected:
  // Makes a mean on every rank, the last one with another configuration than the others.
  static void expect_refusal(const MeanConfig& config, const MeanConfig& of_last,
                             const std::vector<std::string>& words) {
    run_ranks(GetParam(), [&](Transport& world) {
      const Nodes nodes = make_nodes(world, kFlat);
      HostDevice device(1);
      const bool last = world.rank() == world.size() - 1;
      expect_says(thrown([&] { make_mean(last ? of_last : config, nodes, device); }),
                  Code::kInvalidArgument, words);
    });
  }
  static bool alone() { return GetParam() == 1; }
};

TEST_P(BadInput, ElementsThatDifferBetweenRanksAreTold) {
  if (alone()) GTEST_SKIP() << "one rank agrees with itself";
  expect_refusal({.elements = 1024}, {.elements = 1088}, {"elements", "1024", "1088", "rank 0"});
}

TEST_P(BadInput, EverythingElseThatDiffersIsToldToo) {
  if (alone()) GTEST_SKIP() << "one rank agrees with itself";
  const MeanConfig config{.elements = 1000, .seed = 3};
  const auto with = [&](auto change) {
    MeanConfig other = config;
    change(other);
    return other;
  };
  expect_refusal(config, with([](auto& c) { c.scale_block = 256; }),
                 {"scale block", "256", "4096"});
  expect_refusal(config, with([](auto& c) { c.codec = "fp32"; }), {"codec", "fp32", "sign"});
  expect_refusal(config, with([](auto& c) { c.feedback = Feedback::kNone; }), {"feedback"});
  expect_refusal(config, with([](auto& c) { c.quant_block = 512; }), {"integer", "512", "256"});
  expect_refusal(config, with([](auto& c) { c.feedback = Feedback::kEma; }), {"ema", "full"});
  expect_refusal(config, with([](auto& c) { c.feedback_reset = 9; }), {"feedback", "9", "1024"});
  expect_refusal(config, with([](auto& c) { c.scale_norm = kernels::Norm::kL1; }), {"norm"});
  expect_refusal(config, with([](auto& c) { c.form = RandomForm::kCount; }), {"form"});
  expect_refusal(config, with([](auto& c) { c.seed = 99; }), {"seed", "99", "3"});
  expect_refusal(config, with([](auto& c) { c.bucket = 7; }), {"bucket", "7", "0"});
  std::vector<float> pending(1000);
  expect_refusal(config, with([&](auto& c) { c.pending = pending; }), {"pending"});
}

TEST_P(BadInput, WhatMakesNoSenseIsRefusedWithTheRemedy) {
  const auto expect = [](const MeanConfig& config, const std::vector<std::string>& words) {
    expect_refusal(config, config, words);
  };
  expect({.elements = 1000, .scale_block = 7}, {"7", "multiple of 64"});
  expect({.elements = 1000, .scale_block = 4097}, {"4097", "multiple of 64"});
  std::vector<float> pending(999);
  expect({.elements = 1000, .pending = pending}, {"999", "1000"});
  expect({.codec = "random-sign", .elements = 999, .pending = pending}, {"pending"});
  expect({.codec = "vote", .elements = 999, .pending = pending}, {"pending"});
  expect({.codec = "vote", .elements = 999, .form = RandomForm::kSingleRound},
         {"single round", "two-round", "count"});
  expect({.elements = 999, .feedback = Feedback::kNone, .pending = pending}, {"pending"});
  expect({.codec = "int4", .elements = 999, .quant_block = 100}, {"100", "multiple of 64"});
  expect({.codec = "int4", .elements = 999, .quant_block = 0}, {"multiple of 64"});
  expect({.elements = 999, .feedback = Feedback::kEma, .pending = pending}, {"pending"});
  expect({.elements = 999, .feedback_beta = 1}, {"beta", "[0, 1)"});
  expect({.elements = 999, .feedback_decay = -1}, {"decay", "[0, 1]"});
  expect({.codec = "int3", .elements = 999}, {"int3", "fp32", "bf16", "sign", "random-sign"});
  expect({.elements = (std::size_t{1} << 32) + 5}, {"4294967301", "2^32"});
}

TEST_P(BadInput, ASpanOfTheWrongLengthIsRefusedAndChangesNothing) {
  run_ranks(GetParam(), [](Transport& world) {
    const Nodes nodes = make_nodes(world, kFlat);
    HostDevice device(1);
    const auto mean = make_mean({.elements = 100}, nodes, device);
    for (const std::size_t wrong : {0, 99, 101}) {
      std::vector<float> values(wrong, 3.0F);
      expect_says(thrown([&] { mean->reduce(values); }), Code::kInvalidArgument,
                  {std::to_string(wrong), "100"});
      EXPECT_EQ(values, std::vector<float>(wrong, 3.0F));
    }
    auto values = values_of(world.rank(), 0, 100);
    mean->reduce(values);
    EXPECT_TRUE(same_on_all(world, values));
  });
}

TEST_P(BadInput, RanksThatDoNotDivideIntoNodesAreTold) {
  if (alone()) GTEST_SKIP() << "one rank is flat, whatever it is told";
  run_ranks(GetParam(), [](Transport& world) {
    const int per_node = world.size() == 3 ? 2 : 3;
    expect_says(thrown([&] { make_nodes(world, per_node); }), Code::kInvalidArgument,
                {std::to_string(per_node), std::to_string(world.size())});
  });
}

INSTANTIATE_TEST_SUITE_P(All, BadInput, ::testing::ValuesIn(rank_counts()));

}  // namespace
}  // namespace laconic::testing
