#include <gtest/gtest.h>

#include "laconic/core/error.h"
#include "tests/checkpoint/fake_optimizer.h"
#include "tests/checkpoint/scratch.h"
#include "tests/support/ranks.h"

namespace laconic::testing {
namespace {

OptimizerConfig with_nodes(int ranks_per_node) {
  OptimizerConfig config;
  config.ranks_per_node = ranks_per_node;
  return config;
}

void save(const std::filesystem::path& path, int ranks, int ranks_per_node) {
  run_ranks(ranks, [&](Transport& transport) {
    FakeOptimizer optimizer(transport, with_nodes(ranks_per_node));
    optimizer.fill(10, true);
    save_checkpoint(path, optimizer);
  });
}

// Summed in the order of ranks, from the first one's value, then times 1/n.
float mean(const std::string& name, std::size_t k, const std::vector<int>& ranks) {
  float sum = sample(name, ranks[0], k);
  for (std::size_t i = 1; i < ranks.size(); ++i) sum += sample(name, ranks[i], k);
  return sum * static_cast<float>(1.0 / static_cast<double>(ranks.size()));
}

// The ranks that kept element k of `pending`, as FakeOptimizer cuts it.
std::vector<int> holders(std::size_t k, std::size_t count, int ranks, int ranks_per_node) {
  const int local = std::max(ranks_per_node, 1);
  const std::size_t shard =
      (count + static_cast<std::size_t>(local) - 1) / static_cast<std::size_t>(local);
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r)
    if (k / shard == static_cast<std::size_t>(r % local)) all.push_back(r);
  return all;
}

void expect_redistributed(const FakeOptimizer& optimizer, int ranks, int ranks_per_node) {
  ASSERT_EQ(optimizer.redistributed.size(), 3U);
  for (int b = 0; b < 3; ++b) {
    const auto& whole = optimizer.redistributed[static_cast<std::size_t>(b)];
    const std::string prefix = "bucket" + std::to_string(b) + "/";
    const std::size_t count = optimizer.bucket(b).count, begin = optimizer.bucket(b).begin;
    ASSERT_EQ(whole.size(), 4U);
    for (const char* name : {"m", "pending", "server", "weights"})
      ASSERT_EQ(whole.at(name).size(), count);
    for (std::size_t k = 0; k < count; ++k) {
      ASSERT_EQ(whole.at("m")[k], mean(prefix + "m", k, holders(0, 1, ranks, 1))) << k;
      ASSERT_EQ(whole.at("pending")[k],
                mean(prefix + "pending", k, holders(k, count, ranks, ranks_per_node)))
          << k;
      ASSERT_EQ(whole.at("server")[k], sample(prefix + "server", 0, k)) << k;
      ASSERT_EQ(whole.at("weights")[k], mean("weights", begin + k, holders(0, 1, ranks, 1))) << k;
    }
  }
}

struct Change {
  int ranks_before, nodes_before, ranks_after, nodes_after;
};

class OtherRanks : public ::testing::TestWithParam<Change> {};

TEST_P(OtherRanks, ThePartsArePutTogetherForTheNewOnes) {
  const auto [ranks_before, nodes_before, ranks_after, nodes_after] = GetParam();
  const Scratch scratch;
  save(scratch / "run", ranks_before, nodes_before);
  run_ranks(ranks_after, [&, before = ranks_before, nodes = nodes_before,
                          nodes_now = nodes_after](Transport& transport) {
    FakeOptimizer optimizer(transport, with_nodes(nodes_now));
    EXPECT_EQ(load_checkpoint(scratch / "run", optimizer), Resume::kRedistributed);
    expect_redistributed(optimizer, before, nodes);
    EXPECT_EQ(optimizer.restored_calls, 1);
    EXPECT_EQ(optimizer.stats().step, 10);
    for (std::size_t k = 0; k < FakeOptimizer::kElements; ++k)
      ASSERT_EQ(optimizer.model().weights[k], sample("synced", 0, k));
    for (const State& state : optimizer.state())
      if (state.spread == Spread::kSame) {
        for (std::size_t k = 0; k < state.values.size(); ++k)
          ASSERT_EQ(state.values[k], sample(state.name, 0, k));
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Counts, OtherRanks,
                         ::testing::Values(Change{4, 0, 2, 0}, Change{2, 0, 3, 0},
                                           Change{3, 0, 1, 0}, Change{1, 0, 4, 0},
                                           Change{4, 2, 2, 0}, Change{4, 2, 4, 0},
                                           Change{2, 0, 4, 2}, Change{6, 3, 4, 2}));

TEST(OtherRanksFiles, AGapBetweenThePartsIsCorrupt) {
  const Scratch scratch;
  // Two ranks that both say they are the first of their node: the second shard is nowhere.
  run_ranks(2, [&](Transport& transport) {
    FakeOptimizer optimizer(transport, with_nodes(2));
    optimizer.move_state("bucket1/pending", 0);
    save_checkpoint(scratch / "run", optimizer);
  });
  run_ranks(3, [&](Transport& transport) {
    FakeOptimizer optimizer(transport);
    const auto before = optimizer.bytes();
    try {
      load_checkpoint(scratch / "run", optimizer);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kCorrupt);
      EXPECT_NE(std::string(error.what()).find("150 to 300 of `bucket1/pending`"),
                std::string::npos)
          << error.what();
    }
    EXPECT_EQ(optimizer.bytes(), before);
  });
}

TEST(OtherRanksFiles, WhatTwoRanksOwnIsCorrupt) {
  const Scratch scratch;
  run_ranks(2, [&](Transport& transport) {
    FakeOptimizer optimizer(transport);
    optimizer.move_state("bucket0/server", 0);
    save_checkpoint(scratch / "run", optimizer);
  });
  run_ranks(1, [&](Transport& transport) {
    FakeOptimizer optimizer(transport);
    EXPECT_THROW(load_checkpoint(scratch / "run", optimizer), Error);
  });
}

TEST(ElasticCheckpoint, GivesTheMeanOfTheCallersNumbers) {
  const Scratch scratch;
  run_ranks(4, [&](Transport& transport) {
    FakeOptimizer optimizer(transport);
    optimizer.fill(10, true);
    const std::vector<double> own = {1.0 * transport.rank(), 7};
    save_checkpoint(scratch / "run", optimizer, {}, own);
  });
  run_ranks(2, [&](Transport& transport) {
    FakeOptimizer optimizer(transport);
    std::vector<double> own(2);
    EXPECT_EQ(load_checkpoint(scratch / "run", optimizer, own), Resume::kRedistributed);
    EXPECT_EQ(own, (std::vector<double>{1.5, 7}));
  });
}

}  // namespace
}  // namespace laconic::testing
