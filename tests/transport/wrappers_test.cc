#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "laconic/core/error.h"
#include "laconic/transport/emulated.h"
#include "laconic/transport/faulty.h"
#include "laconic/transport/metered.h"
#include "tests/support/ranks.h"
#include "tests/support/short_transport.h"
#include "tests/transport/bytes.h"

namespace laconic {
namespace {

using Clock = std::chrono::steady_clock;

class Wrappers : public testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
};

void exchange(Transport& t, const Exchange& exchange, std::size_t block) {
  const auto in = sent(exchange.kind, t.rank(), t.size(), block, 0);
  t.post(exchange, in);
  t.arrive();
  t.retire();
}

TEST_P(Wrappers, MeteredCountsWhatTheFormulasSay) {
  run_ranks(ranks(), [](Transport& world) {
    Traffic traffic;
    const auto t = make_metered(world, traffic);
    const std::uint64_t peers = static_cast<std::uint64_t>(t->size()) - 1;
    exchange(*t, {.kind = Kind::kAllToAll}, 100);
    exchange(*t, {.kind = Kind::kAllToAll, .continues = true}, 10);
    exchange(*t, {.kind = Kind::kAllGather}, 30);
    exchange(*t, {.kind = Kind::kBroadcast, .root = t->size() - 1}, 7);
    EXPECT_EQ(traffic[Kind::kAllToAll].bytes(), 110 * peers);
    EXPECT_EQ(traffic[Kind::kAllToAll].rounds, 1);
    EXPECT_EQ(traffic[Kind::kAllToAll].exchanges, 2);
    EXPECT_EQ(traffic[Kind::kAllGather].bytes(), 30 * peers);
    EXPECT_EQ(traffic[Kind::kBroadcast].bytes(), t->rank() == t->size() - 1 ? 7 * peers : 0);
    EXPECT_EQ(traffic.total().bytes_inside, 0);
    EXPECT_EQ(traffic.total().rounds, 3);
    EXPECT_EQ(traffic.total().exchanges, 4);
  });
}

TEST_P(Wrappers, MeteredTellsNodesApartByWorldRanks) {
  if (ranks() % 2 != 0) GTEST_SKIP() << "needs nodes of two";
  run_ranks(ranks(), [](Transport& world) {
    Traffic traffic;
    const auto t = make_metered(world, traffic, 2);
    const auto peers = static_cast<std::uint64_t>(t->size()) - 2;
    exchange(*t, {.kind = Kind::kAllGather}, 10);
    EXPECT_EQ(traffic[Kind::kAllGather].bytes_inside, 10);
    EXPECT_EQ(traffic[Kind::kAllGather].bytes_between, 10 * peers);
    const auto inside = t->split(t->rank() / 2), across = t->split(t->rank() % 2);
    traffic = {};
    exchange(*inside, {.kind = Kind::kAllToAll}, 100);
    exchange(*across, {.kind = Kind::kAllToAll}, 1000);
    EXPECT_EQ(traffic[Kind::kAllToAll].bytes_inside, 100);
    EXPECT_EQ(traffic[Kind::kAllToAll].bytes_between, 1000 * (peers / 2));
    EXPECT_EQ(traffic[Kind::kAllGather].exchanges, 0);
  });
}

TEST_P(Wrappers, WrappersStackAndSplittingCountsNothing) {
  const auto network = std::make_shared<Network>(ranks(), 1, Link{});
  run_ranks(ranks(), [&](Transport& world) {
    Traffic traffic;
    const auto metered = make_metered(world, traffic);
    const auto t = make_emulated(*metered, network);
    const auto part = t->split(t->rank() % 2);
    EXPECT_EQ(traffic.total().exchanges, 0);
    exchange(*part, {.kind = Kind::kAllGather}, 10);
    EXPECT_EQ(traffic.total().rounds, 1);
    EXPECT_EQ(traffic[Kind::kAllGather].bytes(),
              10 * (static_cast<std::uint64_t>(part->size()) - 1));
  });
}

TEST_P(Wrappers, EmulatedTakesAsLongAsTheBytesNeed) {
  constexpr std::size_t kBlock = 10000;
  constexpr double kSeconds = 0.05, kLatency = 0.01;
  if (ranks() == 1) GTEST_SKIP() << "nothing is sent";
  const double peers = ranks() - 1;
  const double rate = peers * kBlock / kSeconds;
  const auto network = std::make_shared<Network>(ranks(), 1, Link{rate, kLatency});
  run_ranks(ranks(), [&](Transport& world) {
    const auto t = make_emulated(world, network);
    for (const Kind kind : {Kind::kAllToAll, Kind::kAllGather}) {
      const auto start = Clock::now();
      exchange(*t, {.kind = kind}, kBlock);
      exchange(world, {}, 1);  // all have got what this rank sent
      const std::chrono::duration<double> taken = Clock::now() - start;
      EXPECT_GE(taken.count(), kSeconds + kLatency);
      EXPECT_LT(taken.count(), 10 * (kSeconds + kLatency));
    }
  });
}

TEST_P(Wrappers, EmulatedRanksOfANodeShareItsCard) {
  if (ranks() != 4 || !ranks_are_threads()) GTEST_SKIP() << "needs two nodes of two in one process";
  constexpr std::size_t kBlock = 10000;
  const auto network = std::make_shared<Network>(4, 2, Link{4 * kBlock / 0.05, 0});
  run_ranks(4, [&](Transport& world) {
    const auto t = make_emulated(world, network);
    const auto start = Clock::now();
    exchange(world, {}, 1);
    exchange(*t, {.kind = Kind::kAllToAll}, kBlock);  // 4 blocks leave each node
    exchange(world, {}, 1);
    EXPECT_GE(std::chrono::duration<double>(Clock::now() - start).count(), 0.05);
    const auto inside = t->split(t->rank() / 2);
    const auto before = Clock::now();
    exchange(*inside, {.kind = Kind::kAllGather}, 100 * kBlock);  // 1.25 s if it left the node
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - before).count(), 1.0);
  });
}

TEST(Network, ACardSendsOneThingAfterAnother) {
  Network network(4, 2, {1e6, 0.5}, {1e3, 0});
  const auto start = Clock::now();
  const auto seconds = [&](Clock::time_point when) {
    return std::chrono::duration<double>(when - start).count();
  };
  EXPECT_NEAR(seconds(network.send(0, 2, 1000000)), 1.5, 0.3);
  EXPECT_NEAR(seconds(network.send(1, 3, 1000000)), 2.5, 0.3);  // the card of rank 0
  EXPECT_NEAR(seconds(network.send(2, 0, 1000000)), 1.5, 0.3);  // the other node's
  EXPECT_NEAR(seconds(network.send(0, 1, 1000)), 1, 0.3);       // not the card
  EXPECT_NEAR(seconds(network.send(1, 0, 1000)), 1, 0.3);
  network.set_between_nodes({1e9, 0});
  EXPECT_NEAR(seconds(network.send(2, 1, 1000)), 1, 0.3);
}

TEST(Network, BadArgumentsAreRefused) {
  EXPECT_EQ(thrown_code([] { Network(4, 3, {}); }), Code::kInvalidArgument);
  EXPECT_EQ(thrown_code([] { Network(4, 0, {}); }), Code::kInvalidArgument);
  EXPECT_EQ(thrown_code([] { Network(4, 2, {0, 0}); }), Code::kInvalidArgument);
  EXPECT_EQ(thrown_code([] { Network(4, 2, {1, -1}); }), Code::kInvalidArgument);
  EXPECT_EQ(thrown_code([] {
              Network(4, 2, {std::numeric_limits<double>::quiet_NaN(), 0});
            }),
            Code::kInvalidArgument);
  EXPECT_EQ(thrown_code([] { Network(2, 1, {}).send(0, 2, 1); }), Code::kInvalidArgument);
}

TEST_P(Wrappers, FaultyDiesWhereItIsTold) {
  run_ranks(ranks(), [](Transport& world) {
    std::vector<std::int64_t> seen;
    const auto t =
        make_faulty(world, {.die_at = 2,
                            .before_post = [&](std::int64_t number) { seen.push_back(number); },
                            .on_arrival = {}});
    exchange(*t, {}, 10);
    const auto part = t->split(t->rank() % 2);
    exchange(*part, {}, 10);
    const auto error = thrown([&] { exchange(*part, {}, 10); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::kTransport);
    EXPECT_NE(
        std::string(error->what()).find(fmt::format("rank {} fails at exchange 2", world.rank())),
        std::string::npos);
    EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1}));
  });
}

TEST_P(Wrappers, FaultyChangesWhatArrivedHereAndNothingElse) {
  run_ranks(ranks(), [](Transport& world) {
    const bool broken = world.rank() == 0;
    const auto t = make_faulty(
        world, {.before_post = {},
                .on_arrival = [&](std::int64_t number, int rank, std::span<std::byte> block) {
                  if (broken && number == 1 && rank == 0) block[3] ^= std::byte{1};
                }});
    for (int k = 0; k < 3; ++k) {
      const auto in = sent(Kind::kAllGather, t->rank(), t->size(), 10, k);
      t->post({.kind = Kind::kAllGather}, in);
      const Blocks blocks = t->arrive();
      for (int r = 0; r < t->size(); ++r)
        EXPECT_EQ(holds(blocks[r], r, kEveryone, k), !(broken && k == 1 && r == 0))
            << k << " " << r;
      t->retire();
    }
  });
}

TEST_P(Wrappers, BlocksThatArriveTooShortAreNotRead) {
  run_ranks(ranks(), [](Transport& world) {
    bool armed = true;
    ShortTransport t(world, &armed);
    const std::vector<std::byte> in(40 * static_cast<std::size_t>(t.size()));
    std::vector<std::byte> out(in.size() * static_cast<std::size_t>(t.size()));
    expect_says(thrown([&] { t.all_gather(in, out); }), Code::kCorrupt,
                {fmt::format("{} bytes", in.size() - 1), fmt::format("{} are", in.size())});
    t.retire();
    expect_says(thrown([&] { t.all_to_all(in, std::span(out).first(in.size())); }), Code::kCorrupt,
                {"39 bytes", "40 are expected"});
    t.retire();
    expect_says(thrown([&] { t.broadcast(std::span(out).first(30), 0); }), Code::kCorrupt,
                {"29 bytes", "30 are expected"});
    t.retire();
    const auto emulated = make_emulated(t, std::make_shared<Network>(t.size(), 1, Link{}));
    emulated->post({}, in);
    expect_says(thrown([&] { emulated->arrive(); }), Code::kCorrupt, {"7 bytes", "8 are"});
    armed = false;
    t.arrive();
    t.retire();
    t.retire();
    t.all_gather(in, out);
  });
}

TEST(Faulty, TheOthersLearnThatARankDied) {
  if (!ranks_are_threads()) GTEST_SKIP() << "a process that stays out is tested with its engine";
  const auto error = thrown([] {
    run_ranks(3, [](Transport& world) {
      const auto t = make_faulty(
          world, {.die_at = world.rank() == 1 ? 1 : -1, .before_post = {}, .on_arrival = {}});
      exchange(*t, {}, 10);
      const auto missing = thrown([&] { exchange(*t, {}, 10); });
      ASSERT_TRUE(missing);
      if (world.rank() == 1) throw Error(*missing);
      EXPECT_EQ(missing->code(), Code::kTimeout);
      EXPECT_NE(std::string(missing->what()).find("rank 1 left"), std::string::npos)
          << missing->what();
    });
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::kTransport);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Wrappers, testing::ValuesIn(rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace laconic
