#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "laconic/core/error.h"
#include "laconic/transport/emulated.h"
#include "laconic/transport/metered.h"
#include "tests/support/allocations.h"
#include "tests/support/ranks.h"
#include "tests/transport/bytes.h"

namespace laconic {
namespace {

enum class Wrap { kPlain, kMetered, kEmulated };

// What every Transport does, over engines (the launcher decides), wrappers and numbers of ranks.
class TransportSuite : public testing::TestWithParam<std::tuple<Wrap, int>> {
 protected:
  int ranks() const { return std::get<1>(GetParam()); }

  void run(const std::function<void(Transport&)>& fn, const RunOptions& options = {}) const {
    const auto network = std::make_shared<Network>(ranks(), 1, Link{});
    run_ranks(
        ranks(),
        [&](Transport& world) {
          Traffic traffic;
          switch (std::get<0>(GetParam())) {
            case Wrap::kPlain: return fn(world);
            case Wrap::kMetered: return fn(*make_metered(world, traffic));
            case Wrap::kEmulated: return fn(*make_emulated(world, network));
          }
        },
        options);
  }
};

constexpr std::size_t kSizes[] = {0, 1, 1000003};

TEST_P(TransportSuite, BlocksArriveFromEveryRank) {
  run([](Transport& t) {
    for (const std::size_t block : kSizes) {
      const auto in = sent(Kind::kAllToAll, t.rank(), t.size(), block, 0);
      t.post({.kind = Kind::kAllToAll}, in);
      const Blocks blocks = t.arrive();
      ASSERT_EQ(blocks.block_size(), block);
      for (int from = 0; from < t.size(); ++from)
        EXPECT_TRUE(holds(blocks[from], from, t.rank(), 0)) << "block of rank " << from;
      t.retire();
    }
  });
}

TEST_P(TransportSuite, EveryoneGathersTheSame) {
  run([](Transport& t) {
    for (const std::size_t block : kSizes) {
      const auto in = sent(Kind::kAllGather, t.rank(), t.size(), block, 0);
      std::vector<std::byte> out(block * static_cast<std::size_t>(t.size()));
      t.all_gather(in, out);
      for (int from = 0; from < t.size(); ++from)
        EXPECT_TRUE(holds(std::span(out).subspan(block * static_cast<std::size_t>(from), block),
                          from, kEveryone, 0));
    }
  });
}

// An engine may leave the place alone; then its blocks lie elsewhere.
TEST_P(TransportSuite, GathersWhereTheCallerWantsItOrElsewhere) {
  run([](Transport& t) {
    const auto me = static_cast<std::size_t>(t.rank());
    for (const std::size_t block : kSizes) {
      std::vector<std::byte> place(block * static_cast<std::size_t>(t.size()) + 1);
      const auto in = std::span(place).subspan(block * me, block);
      std::ranges::copy(sent(Kind::kAllGather, t.rank(), t.size(), block, 0), in.begin());
      t.post({.kind = Kind::kAllGather, .into = place.data()}, in);
      const Blocks blocks = t.arrive();
      for (int from = 0; from < t.size(); ++from)
        EXPECT_TRUE(holds(blocks[from], from, kEveryone, 0)) << "block of rank " << from;
      t.retire();
      EXPECT_TRUE(holds(in, t.rank(), kEveryone, 0));
    }
  });
}

TEST_P(TransportSuite, TheRootsBytesReachEveryone) {
  run([](Transport& t) {
    for (const std::size_t block : kSizes)
      for (const int root : {0, t.size() / 2, t.size() - 1}) {
        auto bytes = sent(Kind::kBroadcast, t.rank(), t.size(), block, 0);
        t.broadcast(bytes, root);
        EXPECT_TRUE(holds(bytes, root, kEveryone, 0)) << "root " << root;
      }
  });
}

TEST_P(TransportSuite, BroadcastGivesEveryEntryOfBlocks) {
  run([](Transport& t) {
    const auto in = sent(Kind::kBroadcast, t.rank(), t.size(), 33, 0);
    const int root = t.size() - 1;
    t.post({.kind = Kind::kBroadcast, .root = root}, in);
    const Blocks blocks = t.arrive();
    for (int r = 0; r < t.size(); ++r) EXPECT_TRUE(holds(blocks[r], root, kEveryone, 0));
    t.retire();
  });
}

// Posts up to `depth` ahead, of changing kinds and sizes, and reuses the memory of what retired.
void stream(Transport& t, int depth, int exchanges) {
  const Kind kinds[] = {Kind::kAllToAll, Kind::kAllGather, Kind::kBroadcast};
  const auto exchange_of = [&](int k) { return Exchange{kinds[k % 3], k % t.size(), k % 2 == 1}; };
  const auto block_of = [](int k) { return static_cast<std::size_t>((k * 37) % 500 * (k % 7)); };
  std::vector<std::vector<std::byte>> ring(static_cast<std::size_t>(depth));
  int posted = 0;
  for (int k = 0; k < exchanges; ++k) {
    for (; posted < exchanges && posted < k + depth; ++posted) {
      auto& in = ring[static_cast<std::size_t>(posted % depth)];
      in = sent(kinds[posted % 3], t.rank(), t.size(), block_of(posted), posted);
      t.post(exchange_of(posted), in);
    }
    const Blocks blocks = t.arrive();
    ASSERT_EQ(blocks.block_size(), block_of(k));
    const bool broadcast = kinds[k % 3] == Kind::kBroadcast;
    for (int r = 0; r < t.size(); ++r)
      ASSERT_TRUE(holds(blocks[r], broadcast ? k % t.size() : r,
                        kinds[k % 3] == Kind::kAllToAll ? t.rank() : kEveryone, k))
          << "exchange " << k << " block " << r;
    t.retire();
  }
}

TEST_P(TransportSuite, SeveralAreInFlightAndRetiredMemoryMayBeReused) {
  run([](Transport& t) {
    for (const int depth : {1, 2, 5, Transport::kInFlight})
      ASSERT_NO_FATAL_FAILURE(stream(t, depth, 150));
  });
}

TEST_P(TransportSuite, ManyMayArriveBeforeTheFirstRetires) {
  run([](Transport& t) {
    std::vector<std::vector<std::byte>> in;
    for (int k = 0; k < Transport::kInFlight; ++k) {
      in.push_back(sent(Kind::kAllGather, t.rank(), t.size(), 100, k));
      t.post({.kind = Kind::kAllGather}, in.back());
    }
    for (int k = 0; k < Transport::kInFlight; ++k) {
      const Blocks blocks = t.arrive();
      for (int r = 0; r < t.size(); ++r) ASSERT_TRUE(holds(blocks[r], r, kEveryone, k));
    }
    for (auto& one : in) {
      t.retire();
      std::fill(one.begin(), one.end(), std::byte{0});
    }
    ASSERT_NO_FATAL_FAILURE(stream(t, 3, 10));
  });
}

TEST_P(TransportSuite, NothingIsAllocatedAfterTheFirstExchanges) {
  if (engine_limits().allocates) GTEST_SKIP() << "this engine allocates";
  run([](Transport& t) {
    const std::vector<std::byte> in(64 * static_cast<std::size_t>(t.size()));
    const auto pass = [&] {
      for (int k = 0; k < 100; ++k) {
        for (int slice = 0; slice < 4; ++slice)
          t.post({.kind = Kind::kAllToAll, .continues = slice != 0}, in);
        t.post({.kind = Kind::kAllGather}, std::span(in).first(static_cast<std::size_t>(k % 50)));
        for (int slice = 0; slice < 5; ++slice) {
          t.arrive();
          t.retire();
        }
      }
    };
    pass();
    const std::uint64_t before = allocations();
    pass();
    EXPECT_EQ(allocations(), before);
  });
}

TEST_P(TransportSuite, PiecesAreJoinedAgain) {
  run([](Transport& t) { ASSERT_NO_FATAL_FAILURE(stream(t, 4, 60)); }, {.largest_message = 64});
}

TEST_P(TransportSuite, SplitJoinsEqualColorsInOrder) {
  run([](Transport& t) {
    const auto half = t.split(t.rank() / 2);
    EXPECT_EQ(half->rank(), t.rank() % 2);
    EXPECT_EQ(half->size(), std::min(2, t.size() - t.rank() / 2 * 2));
    const auto parity = t.split(t.rank() % 2);
    EXPECT_EQ(parity->rank(), t.rank() / 2);
    EXPECT_EQ(parity->size(), (t.size() + 1 - t.rank() % 2) / 2);
    EXPECT_EQ(half->host(), t.host());
    for (Transport* part : {half.get(), parity.get(), &t})
      ASSERT_NO_FATAL_FAILURE(stream(*part, 3, 30));

    std::vector<int> members(static_cast<std::size_t>(parity->size()));
    const int mine = t.rank();
    parity->all_gather(std::as_bytes(std::span(&mine, 1)),
                       std::as_writable_bytes(std::span(members)));
    for (std::size_t i = 0; i < members.size(); ++i)
      EXPECT_EQ(members[i], static_cast<int>(i) * 2 + t.rank() % 2);
    const auto alone = parity->split(parity->rank());
    EXPECT_EQ(alone->size(), 1);
    ASSERT_NO_FATAL_FAILURE(stream(*alone, 2, 10));
  });
}

TEST_P(TransportSuite, CallsOutOfOrderAreRefusedAndChangeNothing) {
  run([](Transport& t) {
    EXPECT_EQ(thrown_code([&] { t.arrive(); }), Code::kInvalidArgument);
    EXPECT_EQ(thrown_code([&] { t.retire(); }), Code::kInvalidArgument);
    EXPECT_EQ(thrown_code([&] { t.split(-1); }), Code::kInvalidArgument);
    EXPECT_EQ(thrown_code([&] { t.post({.kind = Kind::kBroadcast, .root = t.size()}, {}); }),
              Code::kInvalidArgument);
    const std::vector<std::byte> in(static_cast<std::size_t>(t.size()) + 1);
    if (t.size() > 1) {
      EXPECT_EQ(thrown_code([&] { t.post({.kind = Kind::kAllToAll}, in); }),
                Code::kInvalidArgument);
    }
    t.post({.kind = Kind::kAllGather}, in);
    EXPECT_EQ(thrown_code([&] { t.retire(); }), Code::kInvalidArgument);
    EXPECT_EQ(thrown_code([&] { t.split(0); }), Code::kInvalidArgument);
    t.arrive();
    t.retire();
    ASSERT_NO_FATAL_FAILURE(stream(t, 2, 10));
  });
}

TEST_P(TransportSuite, FullFlightIsRefusedAndChangesNothing) {
  run([](Transport& t) {
    const std::vector<std::byte> in(8);
    int posted = 0;
    const auto code = thrown_code([&] {
      for (; posted <= 3 * Transport::kInFlight; ++posted) t.post({.kind = Kind::kAllGather}, in);
    });
    EXPECT_EQ(code, Code::kInvalidArgument);
    EXPECT_GE(posted, Transport::kInFlight);
    EXPECT_LE(posted, 2 * Transport::kInFlight + 2);
    for (int k = 0; k < posted; ++k) {
      t.arrive();
      t.retire();
    }
    ASSERT_NO_FATAL_FAILURE(stream(t, 2, 10));
  });
}

// Of each pair of ranks that differ at least one is told; none goes on and none hangs.
void expect_mismatch(Transport& t, const Exchange& exchange, std::size_t bytes,
                     const std::string& said) {
  const std::vector<std::byte> in(bytes);
  const auto error = thrown([&] {
    t.post(exchange, in);
    t.arrive();
    t.retire();
  });
  ASSERT_TRUE(error) << "rank " << t.rank();
  EXPECT_EQ(error->code(), Code::kInvalidArgument) << error->what();
  EXPECT_NE(std::string(error->what()).find(said), std::string::npos) << error->what();
  EXPECT_TRUE(thrown([&] { t.post(exchange, in); })) << "the group is unusable afterwards";
}

TEST_P(TransportSuite, DifferentLengthsAreToldWithBothValues) {
  if (engine_limits().trusts_lengths) GTEST_SKIP() << "this engine cannot find it";
  if (ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  for (const Kind kind : {Kind::kAllGather, Kind::kAllToAll})
    run(
        [&](Transport& t) {
          const auto ranks = static_cast<std::size_t>(t.size());
          const std::size_t block = t.rank() == t.size() - 1 ? 1088 : 1024;
          const std::size_t bytes = kind == Kind::kAllToAll ? block * ranks : block;
          // A process knows of a longer message only that it is longer; threads see what was
          // posted.
          const std::size_t shorter =
              ranks_are_threads() && kind == Kind::kAllToAll ? 1024 * ranks : 1024;
          expect_mismatch(t, {.kind = kind}, bytes, fmt::format(" {} bytes", shorter));
        },
        {.timeout = std::chrono::seconds(20)});
}

TEST_P(TransportSuite, DifferentKindsAreTold) {
  if (engine_limits().trusts_lengths) GTEST_SKIP() << "this engine cannot find it";
  if (ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  run(
      [](Transport& t) {
        const Kind kind = t.rank() == 0 ? Kind::kAllGather : Kind::kAllToAll;
        const std::size_t bytes =
            64 * static_cast<std::size_t>(kind == Kind::kAllToAll ? t.size() : 1);
        expect_mismatch(t, {.kind = kind}, bytes, "all-gather");
      },
      {.timeout = std::chrono::seconds(20)});
}

std::string name_of(const testing::TestParamInfo<std::tuple<Wrap, int>>& param) {
  const char* const wraps[] = {"plain", "metered", "emulated"};
  return fmt::format("{}_{}", wraps[static_cast<int>(std::get<0>(param.param))],
                     std::get<1>(param.param));
}

INSTANTIATE_TEST_SUITE_P(All, TransportSuite,
                         testing::Combine(testing::Values(Wrap::kPlain, Wrap::kMetered,
                                                          Wrap::kEmulated),
                                          testing::ValuesIn(rank_counts())),
                         name_of);

}  // namespace
}  // namespace laconic
