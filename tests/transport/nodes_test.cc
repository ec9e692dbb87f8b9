#include "laconic/transport/nodes.h"

#include <gtest/gtest.h>

#include <string>

#include "laconic/core/error.h"
#include "laconic/transport/wrapper.h"
#include "tests/support/ranks.h"
#include "tests/transport/bytes.h"

namespace laconic {
namespace {

class NodesSuite : public testing::TestWithParam<int> {};

// Rank r says it sits on hosts[r].
class Placed final : public Wrapper {
 public:
  Placed(Transport& inner, std::vector<std::uint64_t> hosts)
      : Wrapper(inner), hosts_(std::move(hosts)) {}
  std::uint64_t host() const noexcept override { return hosts_[static_cast<std::size_t>(rank())]; }

 private:
  std::unique_ptr<Transport> wrap(Part part) override { return std::move(part.inner); }
  std::vector<std::uint64_t> hosts_;
};

TEST_P(NodesSuite, FlatMakesEveryRankANode) {
  run_ranks(GetParam(), [](Transport& world) {
    for (const int per_node : {kFlat, 1}) {
      const Nodes nodes = make_nodes(world, per_node);
      EXPECT_EQ(nodes.inside, nullptr);
      EXPECT_EQ(&nodes.between(), &world);
      EXPECT_EQ(nodes.nodes, world.size());
      EXPECT_EQ(nodes.node, world.rank());
      EXPECT_EQ(nodes.per_node, 1);
      EXPECT_EQ(nodes.local, 0);
    }
  });
}

TEST_P(NodesSuite, ANumberDividesTheRanksInOrder) {
  run_ranks(GetParam(), [](Transport& world) {
    for (int per_node = 2; per_node <= world.size(); ++per_node) {
      if (world.size() % per_node != 0) continue;
      const Nodes nodes = make_nodes(world, per_node);
      EXPECT_EQ(nodes.nodes, world.size() / per_node);
      EXPECT_EQ(nodes.node, world.rank() / per_node);
      ASSERT_NE(nodes.inside, nullptr);
      EXPECT_EQ(nodes.inside->size(), per_node);
      EXPECT_EQ(nodes.inside->rank(), world.rank() % per_node);
      EXPECT_EQ(nodes.local, nodes.inside->rank());
      EXPECT_EQ(nodes.between().size(), nodes.nodes);
      EXPECT_EQ(nodes.between().rank(), nodes.node);
    }
  });
}

TEST_P(NodesSuite, AutoIsOneNodeOnOneMachine) {
  run_ranks(GetParam(), [](Transport& world) {
    const Nodes nodes = make_nodes(world, kAutoNodes);
    EXPECT_EQ(nodes.nodes, 1);
    EXPECT_EQ(nodes.per_node, world.size());
    EXPECT_EQ(nodes.inside != nullptr, world.size() > 1);
  });
}

TEST_P(NodesSuite, AutoNumbersNodesByTheirFirstRank) {
  if (GetParam() < 4 || GetParam() % 2 != 0) GTEST_SKIP() << "needs two nodes";
  run_ranks(GetParam(), [](Transport& inner) {
    Placed world(inner, {90, 10, 90, 10, 90, 10, 90, 10});
    const Nodes nodes = make_nodes(world, kAutoNodes);
    EXPECT_EQ(nodes.nodes, 2);
    EXPECT_EQ(nodes.per_node, world.size() / 2);
    EXPECT_EQ(nodes.node, world.rank() % 2);
    EXPECT_EQ(nodes.local, world.rank() / 2);
    EXPECT_EQ(nodes.inside->size(), nodes.per_node);
  });
}

TEST_P(NodesSuite, UnequalNodesAreToldWithBothCounts) {
  if (GetParam() < 3) GTEST_SKIP() << "two nodes of two ranks are equal";
  run_ranks(GetParam(), [](Transport& inner) {
    Placed world(inner, {5, 6, 5, 5, 5, 5, 5, 5});
    const auto error = thrown([&] { make_nodes(world, kAutoNodes); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::kInvalidArgument);
    EXPECT_NE(std::string(error->what())
                  .find(fmt::format("node 1 has 1 ranks, node 0 has {}", world.size() - 1)),
              std::string::npos)
        << error->what();
  });
}

TEST_P(NodesSuite, NumbersThatDoNotDivideAreRefused) {
  if (GetParam() == 1) GTEST_SKIP() << "one rank is flat whatever is asked";
  run_ranks(GetParam(), [](Transport& world) {
    EXPECT_EQ(thrown_code([&] { make_nodes(world, -2); }), Code::kInvalidArgument);
    const auto error = thrown([&] { make_nodes(world, world.size() + 1); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::kInvalidArgument);
    EXPECT_NE(std::string(error->what())
                  .find(fmt::format("{} ranks do not divide into nodes of {}", world.size(),
                                    world.size() + 1)),
              std::string::npos);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, NodesSuite, testing::ValuesIn(rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace laconic
