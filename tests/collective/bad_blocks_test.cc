#include <gtest/gtest.h>

#include <limits>

#include "laconic/device/host.h"
#include "tests/support/mean_simulation.h"
#include "tests/support/means.h"

namespace laconic::testing {
namespace {

constexpr std::size_t kElements = 20011;

class BadBlocks : public MeanTest {
 protected:
  static MeanSimulation simulation() {
    return {setting().nodes(), setting().per_node, setting().config(kElements)};
  }
};

void fill_block(std::vector<float>& values, const MeanSimulation::Block& block, float value) {
  std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(block.begin), block.count, value);
}

// In exchange 2 the last rank gives one bad value: its block counts as 0 there, nothing else
// changes, and no later exchange notices.
TEST_P(BadBlocks, AreZeroOnTheirRankAloneAndCountOnce) {
  constexpr float kBad[] = {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(), 1e30F, -1e17F};
  auto simulated = simulation();
  const auto block = simulated.blocks()[simulated.blocks().size() / 2];
  const int culprit = setting().ranks - 1;
  std::vector<std::vector<float>> wanted;
  for (int exchange = 0; exchange < 4; ++exchange) {
    auto all = values_of_all(setting().ranks, exchange, kElements);
    if (exchange == 2) fill_block(all[static_cast<std::size_t>(culprit)], block, 0.0F);
    wanted.push_back(simulated.exchange(all));
  }
  run([&](Transport& world, const Nodes& nodes) {
    for (const float bad : kBad) {
      HostDevice device(2);
      const auto mean = make_mean(setting().config(kElements), nodes, device);
      for (std::size_t exchange = 0; exchange < wanted.size(); ++exchange) {
        auto values = values_of(world.rank(), static_cast<int>(exchange), kElements);
        if (exchange == 2 && world.rank() == culprit) values[block.begin + block.count / 2] = bad;
        mean->reduce(values);
        ASSERT_TRUE(all_finite(values)) << bad << ", exchange " << exchange;
        ASSERT_EQ(first_difference(values, wanted[exchange]), "")
            << bad << ", exchange " << exchange;
      }
      EXPECT_EQ(mean->bad_blocks(), world.rank() == culprit ? 1 : 0) << bad;
    }
  });
}

TEST_P(BadBlocks, AskForWhatStandsForThem) {
  auto simulated = simulation();
  const auto block = simulated.blocks().front();
  std::vector<std::vector<float>> wanted;
  for (int exchange = 0; exchange < 3; ++exchange) {
    auto all = values_of_all(setting().ranks, exchange, kElements);
    if (exchange == 1)
      for (auto& one : all) fill_block(one, block, 0.25F);
    wanted.push_back(simulated.exchange(all));
  }
  run([&](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make_mean(setting().config(kElements), nodes, device);
    for (int exchange = 0; exchange < 3; ++exchange) {
      const auto values = values_of(world.rank(), exchange, kElements);
      std::vector<float> result(kElements);
      std::vector<int> fallbacks(kElements);
      mean->exchange(
          [&](Tile& tile) {
            bool good = true;
            for (std::size_t k = 0; k < tile.count; ++k) {
              const std::size_t at = tile.begin + k;
              if (tile.fallback) ++fallbacks[at];
              tile.values[k] = tile.fallback ? 0.25F : values[at];
              good &= tile.fallback || exchange != 1 || at != block.begin;
            }
            return good;
          },
          [&](std::size_t begin, std::span<const float> part) {
            std::copy(part.begin(), part.end(),
                      result.begin() + static_cast<std::ptrdiff_t>(begin));
          },
          {});
      ASSERT_EQ(first_difference(result, wanted[static_cast<std::size_t>(exchange)]), "")
          << "exchange " << exchange;
      for (std::size_t k = 0; k < kElements; ++k)
        ASSERT_EQ(fallbacks[k] > 0,
                  exchange == 1 && k >= block.begin && k < block.begin + block.count)
            << k;
    }
    EXPECT_EQ(mean->bad_blocks(), 1);
  });
}

TEST_P(BadBlocks, AllOfThemBadIsSilenceAndNotTheEnd) {
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make_mean(setting().config(kElements), nodes, device);
    std::vector<float> values(kElements, std::numeric_limits<float>::quiet_NaN());
    mean->reduce(values);
    for (const float value : values) ASSERT_EQ(value, 0);
    EXPECT_GT(mean->bad_blocks(), 0);
    values = values_of(world.rank(), 0, kElements);
    mean->reduce(values);
    EXPECT_TRUE(all_finite(values));
    EXPECT_NE(values, std::vector<float>(kElements));
  });
}

std::vector<Setting> coding_settings() {
  auto all = settings(one_bit_sorts());
  for (const auto& sorts : {integer_sorts(), mixed_sorts()})
    for (const Setting& more : settings(sorts)) all.push_back(more);
  std::erase_if(all, [](const Setting& setting) { return !setting.codes(); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, BadBlocks, ::testing::ValuesIn(coding_settings()), name_of);

class BadBlocksOfOneNode : public ::testing::TestWithParam<std::size_t> {};

// A one-bit mean inside one node is exact, and still minds its blocks.
TEST_P(BadBlocksOfOneNode, AreZeroOnTheirRankAlone) {
  const int ranks = rank_counts().back();
  if (ranks == 1) GTEST_SKIP() << "one rank is flat";
  run_ranks(ranks, [](Transport& world) {
    const Nodes nodes = make_nodes(world, world.size());
    HostDevice device(1);
    const MeanSimulation layout(1, world.size(), kElements, GetParam(), kernels::Norm::kL2);
    const auto block = layout.blocks().back();
    const auto mean = make_mean({.elements = kElements, .scale_block = GetParam()}, nodes, device);
    const auto dense = make_mean({.codec = "fp32", .elements = kElements}, nodes, device);
    auto values = values_of(world.rank(), 0, kElements), wanted = values;
    if (world.rank() == 1) {
      values[block.begin] = std::numeric_limits<float>::quiet_NaN();
      fill_block(wanted, block, 0.0F);
    }
    mean->reduce(values);
    dense->reduce(wanted);
    EXPECT_EQ(first_difference(values, wanted), "");
    EXPECT_EQ(mean->bad_blocks(), world.rank() == 1 ? 1 : 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Blocks, BadBlocksOfOneNode, ::testing::Values(4096, 256, 0, 8192));

}  // namespace
}  // namespace laconic::testing
