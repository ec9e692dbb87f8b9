#include <gtest/gtest.h>

#include "laconic/transport/faulty.h"
#include "tests/support/means.h"
#include "tests/support/thrown.h"

namespace laconic::testing {
namespace {

constexpr RunOptions kSoon{.timeout = std::chrono::seconds(5)};

void expect_says(const std::optional<Error>& error, Code code,
                 const std::vector<std::string>& words) {
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), code) << error->what();
  for (const std::string& word : words)
    EXPECT_NE(std::string(error->what()).find(word), std::string::npos)
        << '"' << word << "\" is not in: " << error->what();
}

class BadInput : public ::testing::TestWithParam<int> {
 protected:
  // Makes a mean on every rank, the last one with another configuration than the others.
  static void expect_refusal(const MeanConfig& config, const MeanConfig& of_last,
                             const std::vector<std::string>& words) {
    run_ranks(GetParam(), [&](Transport& world) {
      const Nodes nodes = make_nodes(world, kFlat);
      Pool pool(1);
      const bool last = world.rank() == world.size() - 1;
      expect_says(thrown([&] { make_mean(last ? of_last : config, nodes, pool); }),
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
  expect_refusal(config, with([](auto& c) { c.kind = MeanKind::kDense; }), {"kind", "0", "1"});
  expect_refusal(config, with([](auto& c) { c.bf16 = true; }), {"bf16"});
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
  expect({.kind = MeanKind::kRandomSign, .elements = 999, .pending = pending}, {"pending"});
  expect({.elements = (std::size_t{1} << 32) + 5}, {"4294967301", "2^32"});
}

TEST_P(BadInput, ASpanOfTheWrongLengthIsRefusedAndChangesNothing) {
  run_ranks(GetParam(), [](Transport& world) {
    const Nodes nodes = make_nodes(world, kFlat);
    Pool pool(1);
    const auto mean = make_mean({.elements = 100}, nodes, pool);
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

// Means whose transport goes wrong.
class MeanFaults : public MeanTest {
 protected:
  static constexpr std::size_t kElements = 20011;

  // Reduces twice, then arms `faults` on the last rank and reduces again. Returns what that threw.
  template <typename Faulted>
  static std::optional<Error> broken_reduce(Transport& world, const Faulted& faults) {
    bool armed = false;
    const auto faulty = make_faulty(world, faults(armed));
    const Nodes nodes = make_nodes(*faulty, setting().per_node);
    Pool pool(1);
    const auto mean = make_mean(setting().config(kElements), nodes, pool);
    for (int exchange = 0; exchange < 2; ++exchange) {
      auto values = values_of(world.rank(), exchange, kElements);
      mean->reduce(values);
    }
    armed = world.rank() == world.size() - 1;
    auto values = values_of(world.rank(), 2, kElements);
    return thrown([&] { mean->reduce(values); });
  }
};

TEST_P(MeanFaults, AFlippedBitIsCorruptWhereItArrivesAndEndsTheOthers) {
  if (!setting().sort.random() && !setting().codes_one_bit())
    GTEST_SKIP() << "whole floats have no checksum";
  run_ranks(
      setting().ranks,
      [](Transport& world) {
        const auto error = broken_reduce(world, [](bool& armed) {
          return Faults{.before_post = {},
                        .on_arrival = [&armed](std::int64_t, int, std::span<std::byte> block) {
                          const bool coded = block.size() > 40 && block[0] == std::byte{'L'} &&
                                             block[1] == std::byte{'C'};
                          if (!armed || !coded) return;
                          block[37] ^= std::byte{4};
                          armed = false;
                        }};
        });
        if (world.rank() == world.size() - 1)
          expect_says(error, Code::kCorrupt, {"checksum", "message from rank"});
        else
          expect_says(error, Code::kTimeout, {"rank"});
      },
      kSoon);
}

TEST_P(MeanFaults, ARankThatDiesEndsTheOthers) {
  run_ranks(
      setting().ranks,
      [](Transport& world) {
        const auto error = broken_reduce(world, [](bool& armed) {
          return Faults{.before_post =
                            [&armed](std::int64_t number) {
                              if (armed) fail(Code::kTransport, "dies at exchange {}", number);
                            },
                        .on_arrival = {}};
        });
        if (world.rank() == world.size() - 1)
          expect_says(error, Code::kTransport, {"dies at exchange"});
        else
          expect_says(error, Code::kTimeout, {"rank"});
      },
      kSoon);
}

std::vector<Setting> few_settings() {
  auto all = settings(all_sorts());
  std::erase_if(all, [](const Setting& setting) { return setting.ranks > 4; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, MeanFaults, ::testing::ValuesIn(few_settings()), name_of);

}  // namespace
}  // namespace laconic::testing
