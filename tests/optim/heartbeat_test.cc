#include "laconic/optim/heartbeat.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "laconic/transport/faulty.h"
#include "tests/optim/training.h"
#include "tests/support/refusal.h"
#include "tests/support/thrown.h"

// Ranks that exchange nothing for long, and one that dies meanwhile.
namespace laconic::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kTimeout{1000};
constexpr std::int64_t kNever = 1'000'000;

OptimizerConfig silent_config(std::int64_t delay = 0) {
  OptimizerConfig config = short_config("local-steps");
  config.total_steps = kNever;
  config.every = kNever;
  config.delay = delay;
  return config;
}

// Silent steps until one throws; no error within ten timeouts: none.
std::optional<Error> steps_until_an_error(Training& training) {
  for (const auto begin = Clock::now(); Clock::now() < begin + 10 * kTimeout;) {
    if (auto error = thrown([&] { training.run_to(training.next()); })) return error;
    EXPECT_EQ(training.optimizer->stats().kind, "silent");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

TEST(Heartbeat, NamesARankThatFallsSilentBetweenExchanges) {
  if (!ranks_are_threads()) GTEST_SKIP() << "the group is unusable afterwards";
  for (const std::int64_t delay : {0, 5})
    run_ranks(3,
              [delay](Transport& world) {
                const bool last = world.rank() == 2;
                std::atomic<bool> armed = false;
                const auto faulty = make_faulty(world, {.die_at = -1,
                                                        .before_post =
                                                            [&](std::int64_t) {
                                                              if (armed)
                                                                fail(Code::kTransport, "dead");
                                                            },
                                                        .on_arrival = nullptr});
                Training training(silent_config(delay), *faulty);
                training.run_to(3);
                armed = last;
                const auto begin = Clock::now();
                const auto error = steps_until_an_error(training);
                ASSERT_TRUE(error);
                EXPECT_LT(Clock::now() - begin, 4 * kTimeout);
                if (last) return;
                EXPECT_EQ(error->code(), Code::kTimeout) << error->what();
                EXPECT_NE(std::string(error->what()).find("rank 2"), std::string::npos)
                    << error->what();
              },
              {.timeout = kTimeout});
}

TEST(Heartbeat, LetsARankComputeLongerThanTheTimeout) {
  const auto be_busy = [](Transport& world) {
    Training training(silent_config(), world);
    training.run_to(2);
    for (const auto begin = Clock::now(); Clock::now() < begin + 2 * kTimeout;) {
      std::this_thread::sleep_for(world.rank() == 0 ? 2 * kTimeout : kTimeout / 100);
      EXPECT_NO_THROW(training.optimizer->take_up_weights());
    }
    EXPECT_NO_THROW(training.run_to(4));
  };
  for (const int ranks : rank_counts()) run_ranks(ranks, be_busy, {.timeout = kTimeout});
}

// The others end at once; a late rank still takes the steps that they took, and no more.
TEST(Heartbeat, LetsALateRankFinishWhatTheOthersFinished) {
  const auto be_late = [](Transport& world) {
    Training training(silent_config(), world);
    training.run_to(3);
    if (world.rank() == 0) {
      std::this_thread::sleep_for(kTimeout / 2);
      EXPECT_NO_THROW(training.run_to(6));
      const auto error = thrown([&] { training.run_to(7); });
      EXPECT_TRUE(error && says(error->what(), {"rank 1 ended after step 6", "see why it ended"}));
    } else {
      training.run_to(6);
      training.optimizer.reset();
    }
    world.gather(0);  // processes go on to the next group together
  };
  for (const int ranks : rank_counts())
    if (ranks > 1) run_ranks(ranks, be_late, {.timeout = kTimeout});
}

TEST(Heartbeat, EndsQuicklyWhenAllRanksDo) {
  for (const int ranks : rank_counts())
    run_ranks(ranks, [](Transport& world) {
      Training training(silent_config(), world);
      training.run_to(2);
      world.gather(0);
      const auto begin = Clock::now();
      training.optimizer.reset();
      EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(900)) << "that is a beat";
    });
}

TEST(Heartbeat, CountsNoBytesAndChangesNoStep) {
  for (const int ranks : rank_counts())
    run_ranks(ranks,
              [](Transport& world) {
                Training training(silent_config(), world);
                for (std::int64_t t = 1; t <= 3; ++t) {
                  training.run_to(t);
                  std::this_thread::sleep_for(kTimeout / 2);
                }
                EXPECT_EQ(training.optimizer->totals().bytes, 0U);
              },
              {.timeout = kTimeout});
}

}  // namespace
}  // namespace laconic::testing
