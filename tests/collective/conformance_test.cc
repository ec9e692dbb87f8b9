#include <gtest/gtest.h>

#include "laconic/device/host.h"
#include "tests/support/mean_simulation.h"
#include "tests/support/means.h"

namespace laconic::testing {
namespace {

// What every mean obeys, whatever its kind.
class MeanSuite : public MeanTest {
 protected:
  // The hashes of a few reduces, one after another.
  static std::vector<std::uint64_t> hashes(const Nodes& nodes, std::size_t elements, int threads,
                                           int exchanges = 3) {
    HostDevice device(threads);
    const auto mean = make_mean(setting().config(elements), nodes, device);
    std::vector<std::uint64_t> all;
    for (int exchange = 0; exchange < exchanges; ++exchange) {
      auto values = values_of(nodes.world->rank(), exchange, elements);
      mean->reduce(values);
      all.push_back(hash_of(values));
    }
    return all;
  }
};

void expect_same_bytes(const Setting& setting, Transport& world, const Nodes& nodes,
                       std::size_t elements, int exchanges) {
  HostDevice device(1);
  const auto mean = make_mean(setting.config(elements), nodes, device);
  EXPECT_EQ(mean->elements(), elements);
  for (int exchange = 0; exchange < exchanges; ++exchange) {
    auto values = values_of(world.rank(), exchange, elements);
    mean->reduce(values);
    EXPECT_TRUE(same_on_all(world, values)) << elements << " elements, exchange " << exchange;
    EXPECT_TRUE(all_finite(values)) << elements << " elements, exchange " << exchange;
  }
  EXPECT_EQ(mean->bad_blocks(), 0);
}

TEST_P(MeanSuite, AllRanksEndWithTheSameBytes) {
  const auto ranks = static_cast<std::size_t>(setting().ranks);
  run([&](Transport& world, const Nodes& nodes) {
    for (const std::size_t elements :
         std::vector<std::size_t>{0, 1, 2, 63, 64, 65, 4095, 4096, 4097, 64 * ranks + 1})
      expect_same_bytes(setting(), world, nodes, elements, 3);
    expect_same_bytes(setting(), world, nodes, 100003, 2);
  });
}

TEST_P(MeanSuite, AllRanksEndWithTheSameBytesInSeveralSlices) {
  if (setting().ranks > 4 || setting().per_node > 2)
    GTEST_SKIP() << "the slices are the same with fewer";
  run([&](Transport& world, const Nodes& nodes) {
    expect_same_bytes(setting(), world, nodes, 700001, 1);
  });
}

TEST_P(MeanSuite, ThreadsAndRepetitionDoNotChangeABit) {
  run([](Transport&, const Nodes& nodes) {
    const auto expected = hashes(nodes, 30011, 1);
    EXPECT_EQ(hashes(nodes, 30011, 3), expected);
    EXPECT_EQ(hashes(nodes, 30011, 3), expected);
    EXPECT_EQ(hashes(nodes, 30011, 1), expected);
  });
}

TEST_P(MeanSuite, SlicesDoNotDependOnThreads) {
  const bool two_nodes_of_two = setting().ranks == 4 && setting().per_node == 2;
  if (setting().ranks != 2 && !two_nodes_of_two) GTEST_SKIP() << "a pair and two are enough";
  run([](Transport&, const Nodes& nodes) {
    EXPECT_EQ(hashes(nodes, 600001, 3, 1), hashes(nodes, 600001, 1, 1));
  });
}

TEST_P(MeanSuite, ExchangeTakesEveryElementOnceAndEqualsReduce) {
  static constexpr std::size_t kElements = 20011;
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(2);
    const auto mean = make_mean(setting().config(kElements), nodes, device);
    const auto other = make_mean(setting().config(kElements), nodes, device);
    for (int exchange = 0; exchange < 2; ++exchange) {
      const auto values = values_of(world.rank(), exchange, kElements);
      std::vector<int> filled(kElements), taken(kElements);
      std::vector<float> result(kElements);
      mean->exchange(
          [&](Tile& tile) {
            EXPECT_FALSE(tile.fallback);
            EXPECT_LE(tile.count, kTile);
            EXPECT_LE(tile.begin + tile.count, kElements);
            for (std::size_t k = 0; k < tile.count; ++k) {
              ++filled[tile.begin + k];
              tile.values[k] = values[tile.begin + k];
            }
            return true;
          },
          [&](std::size_t begin, std::span<const float> part) {
            EXPECT_LE(part.size(), kTile);
            for (std::size_t k = 0; k < part.size(); ++k) {
              ++taken[begin + k];
              result[begin + k] = part[k];
            }
          },
          {.step = static_cast<std::uint64_t>(exchange)});
      EXPECT_EQ(taken, std::vector<int>(kElements, 1));
      for (const int times : filled) ASSERT_TRUE(times == 1 || times == 2) << times;
      auto reduced = values;
      other->reduce(reduced);
      EXPECT_EQ(first_difference(result, reduced), "");
    }
  });
}

TEST_P(MeanSuite, AMeanOutlivesManyExchanges) {
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make_mean(setting().config(193), nodes, device);
    for (int exchange = 0; exchange < 150; ++exchange) {
      auto values = values_of(world.rank(), exchange, 193);
      mean->reduce(values);
      if (exchange % 50 == 49) {
        EXPECT_TRUE(same_on_all(world, values)) << exchange;
      }
    }
  });
}

TEST_P(MeanSuite, BlocksCoverTheVectorFromTheBeginningOfChunks) {
  run([](Transport&, const Nodes& nodes) {
    HostDevice device(1);
    for (const std::size_t elements : {0, 1, 4096, 40009}) {
      const auto begins = make_mean(setting().config(elements), nodes, device)->blocks();
      const std::size_t block = setting().sort.lossy() ? setting().sort.block() : 4096;
      const bool dealt =
          setting().sort.random() && setting().sort.config.form == RandomForm::kSingleRound;
      const MeanSimulation layout(dealt ? 1 : setting().nodes(), dealt ? 1 : setting().per_node,
                                  elements, block, kernels::Norm::kL2);
      std::vector<std::size_t> wanted;
      for (const auto& one : layout.blocks()) wanted.push_back(one.begin);
      EXPECT_EQ(begins, wanted) << elements << " elements";
    }
  });
}

TEST_P(MeanSuite, DescribeSaysWhatRuns) {
  if (!setting().exchanges()) GTEST_SKIP() << "nothing runs";
  run([](Transport&, const Nodes& nodes) {
    HostDevice device(1);
    const std::string says = make_mean(setting().config(100), nodes, device)->describe();
    const std::string codec = setting().sort.config.codec;
    const std::string kind = setting().sort.random()  ? "random-sign"
                             : setting().sort.votes() ? "vote"
                             : !setting().codes()     ? "dense"
                             : codec == "sign"        ? "one-bit"
                                                      : codec;
    EXPECT_EQ(says.find(kind), 0) << says;
    const std::string place =
        setting().flat() ? fmt::format("{} ranks", setting().ranks)
                         : fmt::format("{} nodes of {}", setting().nodes(), setting().per_node);
    EXPECT_NE(says.find(place), std::string::npos) << says;
  });
}

INSTANTIATE_TEST_SUITE_P(All, MeanSuite, ::testing::ValuesIn(settings(all_sorts())), name_of);

}  // namespace
}  // namespace laconic::testing
