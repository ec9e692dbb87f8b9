#include "laconic/transport/threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <latch>
#include <set>
#include <string>
#include <thread>

#include "laconic/core/error.h"
#include "tests/transport/bytes.h"

namespace laconic {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

// Plays `fn` on ranks as threads even when a launcher started this program.
void play(int ranks, milliseconds timeout,
          const std::function<void(std::unique_ptr<Transport>)>& fn) {
  auto transports = make_threads(ranks, timeout);
  std::vector<std::jthread> threads;
  for (auto& transport : transports)
    threads.emplace_back([&fn, one = std::move(transport)]() mutable { fn(std::move(one)); });
}

void gather(Transport& t) {
  const std::byte in{1};
  std::vector<std::byte> out(static_cast<std::size_t>(t.size()));
  t.all_gather(std::span(&in, 1), out);
}

// The sockets that this process holds.
std::set<std::string> sockets() {
  std::set<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.starts_with("socket:")) all.insert(target);
  }
  return all;
}

void expect_missing(const std::optional<Error>& error, const std::string& who) {
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::kTimeout);
  EXPECT_NE(std::string(error->what()).find(who), std::string::npos) << error->what();
}

TEST(Threads, BadArgumentsAreRefused) {
  EXPECT_EQ(thrown_code([] { make_threads(0); }), Code::kInvalidArgument);
  EXPECT_EQ(thrown_code([] { make_threads(2, 0ms); }), Code::kInvalidArgument);
}

TEST(Threads, ARankThatNeverArrivesIsNamed) {
  std::latch told(3);
  play(4, 50ms, [&](std::unique_ptr<Transport> t) {
    if (t->rank() == 2) return told.wait();
    expect_missing(thrown([&] { gather(*t); }), "rank 2 did not post exchange 0 within 50 ms");
    told.count_down();
  });
}

TEST(Threads, AllMissingRanksAreNamed) {
  std::latch told(1);
  play(4, 50ms, [&](std::unique_ptr<Transport> t) {
    if (t->rank() != 1) return told.wait();
    expect_missing(thrown([&] { gather(*t); }), "ranks 0, 2 and 3");
    told.count_down();
  });
}

TEST(Threads, ARankThatNeverReadsIsNamed) {
  std::latch told(2);
  play(3, 50ms, [&](std::unique_ptr<Transport> t) {
    const std::byte in{};
    t->post({.kind = Kind::kAllGather}, std::span(&in, 1));
    if (t->rank() == 0) return told.wait();
    expect_missing(thrown([&] {
                     t->arrive();
                     t->retire();
                   }),
                   "rank 0 did not finish exchange 0");
    told.count_down();
  });
}

TEST(Threads, ALateRankLearnsThatTheGroupFailed) {
  std::latch told(1);
  play(2, 20ms, [&](std::unique_ptr<Transport> t) {
    if (t->rank() == 1) told.wait();
    expect_missing(thrown([&] { gather(*t); }), "rank 1");
    if (t->rank() == 0) told.count_down();
  });
}

TEST(Threads, ARankThatLeavesFailsTheOthersAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  play(3, 10min, [](std::unique_ptr<Transport> t) {
    gather(*t);
    if (t->rank() == 1) return;
    expect_missing(thrown([&] { gather(*t); }), "rank 1 left");
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1min);
}

TEST(Threads, ARankThatLeavesWithUnreadMemoryFailsTheOthers) {
  std::latch left(1);
  play(2, 10min, [&](std::unique_ptr<Transport> t) {
    const std::byte in{};
    t->post({.kind = Kind::kAllGather}, std::span(&in, 1));
    if (t->rank() == 0) {
      t.reset();
      return left.count_down();
    }
    left.wait();
    expect_missing(thrown([&] { t->arrive(); }), "rank 0 left");
  });
}

TEST(Threads, ARankMayLeaveWhenAllHaveReadItsBlocks) {
  for (int round = 0; round < 200; ++round)
    play(3, 10min, [](std::unique_ptr<Transport> t) {
      gather(*t);
      gather(*t);
      t.reset();  // the others may still be on their way out of the last retire
    });
}

TEST(Threads, APartNamesTheRanksOfTheWorld) {
  std::latch told(1);
  play(4, 50ms, [&](std::unique_ptr<Transport> t) {
    const auto part = t->split(t->rank() / 2);
    if (t->rank() != 2) return told.wait();
    expect_missing(thrown([&] { gather(*part); }), "world rank 3");
    told.count_down();
  });
}

TEST(Threads, BlocksAreViewsOfTheSendersMemory) {
  std::vector<std::byte> memory[2] = {std::vector<std::byte>(10), std::vector<std::byte>(10)};
  play(2, 10min, [&](std::unique_ptr<Transport> t) {
    t->post({.kind = Kind::kAllToAll}, memory[t->rank()]);
    const Blocks blocks = t->arrive();
    for (int r = 0; r < 2; ++r) EXPECT_EQ(blocks[r].data(), memory[r].data() + 5 * t->rank());
    t->retire();
  });
}

// A rank that fails may free its memory at once; nobody may still be reading it (the sanitizers
// watch).
TEST(Threads, AFailedRankWaitsForThoseWhoReadItsMemory) {
  std::latch arrived(3), failing(1);
  play(3, 10min, [&](std::unique_ptr<Transport> t) {
    auto in = std::make_unique<std::vector<std::byte>>(1 << 16, std::byte{7});
    t->post({.kind = Kind::kAllGather}, *in);
    const Blocks blocks = t->arrive();
    arrived.arrive_and_wait();
    if (t->rank() == 2) return t.reset();  // so the others fail
    if (t->rank() == 1) {
      failing.wait();
      for (int i = 0; i < 100; ++i)
        EXPECT_EQ(std::count(blocks[0].begin(), blocks[0].end(), std::byte{7}), 1 << 16);
    } else {
      failing.count_down();
    }
    expect_missing(thrown([&] { t->retire(); }), "rank 2 left");
    in.reset();
  });
}

// Nothing that could listen on a port, or talk to one.
TEST(Threads, OpenNoSockets) {
  const auto before = sockets();
  run_threads(3, [&](Transport& transport) {
    gather(transport);
    const auto part = transport.split(transport.rank() % 2);
    gather(*part);
    EXPECT_EQ(sockets(), before);
    gather(transport);
  });
}

}  // namespace
}  // namespace laconic
