#include "laconic/transport/mpi.h"

#include <gtest/gtest.h>

#include <string>

#include "laconic/core/error.h"
#include "tests/support/ranks.h"
#include "tests/transport/bytes.h"

namespace {

int handlers_set = 0;

}  // namespace

// Counts how often an error handler of a communicator is set that is not the transport's own.
extern "C" int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler) {
  if (comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF) ++handlers_set;
  return PMPI_Comm_set_errhandler(comm, handler);
}

namespace laconic {
namespace {

using namespace std::chrono_literals;

TEST(Mpi, AnUninitialisedMpiIsRefusedWithTheRemedy) {
  if (!ranks_are_threads()) GTEST_SKIP() << "MPI is initialised";
  const auto error = thrown([] { make_mpi(MPI_COMM_WORLD); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::kTransport);
  EXPECT_NE(std::string(error->what()).find("MPI_THREAD_SERIALIZED"), std::string::npos);
}

TEST(Mpi, BadSettingsAreRefused) {
  EXPECT_EQ(thrown_code([] { make_mpi(MPI_COMM_WORLD, {.largest_message = 0}); }),
            Code::kInvalidArgument);
  EXPECT_EQ(
      thrown_code([] { make_mpi(MPI_COMM_WORLD, {.largest_message = std::size_t{1} << 31}); }),
      Code::kInvalidArgument);
  EXPECT_EQ(thrown_code([] { make_mpi(MPI_COMM_WORLD, {.timeout = 0ms}); }),
            Code::kInvalidArgument);
}

class MpiRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (ranks_are_threads() || rank_counts()[0] == 1) GTEST_SKIP() << "needs several processes";
  }
  int ranks() const { return rank_counts()[0]; }
};

// The last rank stays out of the exchange until all others have been told.
void leave_out_the_last(const std::function<void(Transport&)>& exchange, const std::string& who) {
  run_ranks(rank_counts()[0],
            [&](Transport& t) {
              if (t.rank() != t.size() - 1) {
                const auto error = thrown([&] { exchange(t); });
                ASSERT_TRUE(error);
                EXPECT_EQ(error->code(), Code::kTimeout);
                EXPECT_NE(std::string(error->what()).find(who), std::string::npos) << error->what();
                EXPECT_EQ(thrown_code([&] { t.post({}, {}); }), Code::kTimeout)
                    << "the group is unusable afterwards";
              }
              MPI_Barrier(MPI_COMM_WORLD);
            },
            {.timeout = 300ms});
}

TEST_F(MpiRanks, ARankThatNeverSendsIsNamed) {
  const std::string last =
      fmt::format("rank {} did not send exchange 0 within 300 ms", ranks() - 1);
  for (const std::size_t bytes :
       {std::size_t{8}, std::size_t{1} << 20})  // sent at once, and on demand
    leave_out_the_last(
        [&](Transport& t) {
          const std::vector<std::byte> in(bytes);
          t.post({.kind = Kind::kAllGather}, in);
          t.arrive();
        },
        last);
}

TEST_F(MpiRanks, ARankThatNeverTakesIsNamed) {
  if (ranks() != 2) GTEST_SKIP() << "with more the others would miss the root instead";
  leave_out_the_last(
      [](Transport& t) {
        const std::vector<std::byte> in(std::size_t{4} << 20);
        t.post({.kind = Kind::kBroadcast, .root = 0}, in);
        t.arrive();
        t.retire();
      },
      "rank 1 did not take exchange 0");
}

TEST_F(MpiRanks, ARankThatStaysOutOfASplitIsNamed) {
  leave_out_the_last([](Transport& t) { t.split(0); },
                     fmt::format("rank {} did not send", ranks() - 1));
}

TEST_F(MpiRanks, ARankThatGaveItsColorAndStaysOutOfTheSplitIsNamed) {
  const std::string last = fmt::format("rank {} did not send exchange 1", ranks() - 1);
  run_ranks(ranks(),
            [&](Transport& t) {
              if (t.rank() == t.size() - 1)
                t.gather(0);
              else
                expect_says(thrown([&] { t.split(0); }), Code::kTimeout, {last});
              MPI_Barrier(MPI_COMM_WORLD);
            },
            {.timeout = 300ms});
}

TEST_F(MpiRanks, AWaitLeavesTheErrorHandlersOfTheCallerAlone) {
  int before = 0;
  leave_out_the_last(
      [&](Transport& t) {
        t.post({.kind = Kind::kAllGather}, {});
        before = handlers_set;
        t.arrive();
      },
      "did not send");
  EXPECT_LE(handlers_set - before, 4) << "set and set back, for two communicators";
}

TEST_F(MpiRanks, APieceMoreOrLessIsTold) {
  run_ranks(
      ranks(),
      [](Transport& t) {
        const std::vector<std::byte> in(t.rank() == 0 ? 128 : 64);
        const auto error = thrown([&] {
          t.post({.kind = Kind::kAllGather}, in);
          t.arrive();
        });
        ASSERT_TRUE(error);
        EXPECT_EQ(error->code(), Code::kInvalidArgument) << error->what();
        EXPECT_NE(std::string(error->what()).find("64 bytes and further ones"), std::string::npos)
            << error->what();
      },
      {.timeout = 20s, .largest_message = 64});
}

TEST_F(MpiRanks, ATransportMayGoWithExchangesInFlight) {
  run_ranks(ranks(), [](Transport& t) {
    static const std::vector<std::byte> in(std::size_t{1} << 20);
    t.post({.kind = Kind::kAllGather}, in);
    t.post({.kind = Kind::kAllGather}, std::span(in).first(10));
  });
  run_ranks(ranks(), [](Transport& t) {
    const auto in = sent(Kind::kAllGather, t.rank(), t.size(), 1000, 0);
    t.post({.kind = Kind::kAllGather}, in);
    const Blocks blocks = t.arrive();
    for (int r = 0; r < t.size(); ++r) EXPECT_TRUE(holds(blocks[r], r, kEveryone, 0));
    t.retire();
  });
}

}  // namespace
}  // namespace laconic
