#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "laconic/transport/emulated.h"
#include "laconic/transport/wrapper.h"
#include "tests/optim/training.h"
#include "tests/support/refusal.h"

namespace laconic::testing {
namespace {

// A network that is slow with what is shorter or longer than a limit, and may change its mind.
class Moody final : public Wrapper {
 public:
  struct Mood {
    std::atomic<bool> short_is_slow{false}, long_is_slow{false};
  };
  static constexpr std::size_t kShort = 32 << 10;  // bytes; a vote is never slow
  static constexpr std::size_t kVote = 256;

  template <typename Inner>
  Moody(Inner&& inner, Mood& mood) : Wrapper(std::forward<Inner>(inner)), mood_(mood) {}
  void post(const Exchange& exchange, std::span<const std::byte> in) override {
    const bool slow = in.size() < kShort ? in.size() > kVote && mood_.short_is_slow.load()
                                         : mood_.long_is_slow.load();
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(25));
    inner().post(exchange, in);
  }

 private:
  std::unique_ptr<Transport> wrap(Part part) override {
    return std::make_unique<Moody>(std::move(part), mood_);
  }
  Mood& mood_;
};

constexpr std::size_t kMany = 128 << 10;

OptimizerConfig choosing(std::string algorithm, int ranks_per_node = kFlat) {
  OptimizerConfig config = short_config(algorithm, ranks_per_node);
  config.total_steps = 1000;
  config.variance_freeze_step = 2;
  config.freeze_step = 2;
  config.double_every = 1000;
  config.bucket_elements = kMany;
  config.exchange = ExchangeForm::kAuto;
  return config;
}

// Whether, within 400 steps, it is described like this for longer than a trial of the ways takes.
bool settles_on(Training& training, const std::string& wanted) {
  int in_a_row = 0;
  for (int i = 0; i < 400 && in_a_row < 24; ++i) {
    training.run_to(training.next());
    const StepStats& stats = training.optimizer->stats();
    in_a_row = stats.exchange == wanted && stats.kind == wanted ? in_a_row + 1 : 0;
  }
  return in_a_row == 24;
}

class Choosing : public ::testing::TestWithParam<std::string> {};

TEST_P(Choosing, FollowsANetworkThatChangesInTheMiddleOfARun) {
  Moody::Mood mood;
  mood.long_is_slow = true;
  run_ranks(2, [&](Transport& world) {
    Moody network(world, mood);
    Training training(choosing(GetParam()), network, {}, kMany);
    EXPECT_TRUE(settles_on(training, "coded"));
    mood.long_is_slow = false;
    mood.short_is_slow = true;
    EXPECT_TRUE(settles_on(training, "dense"));
    EXPECT_TRUE(equal_on_all(world, training.weights));
    EXPECT_TRUE(all_finite(training));
  });
}

TEST_P(Choosing, StrictDecidesOnce) {
  Moody::Mood mood;
  mood.long_is_slow = true;
  run_ranks(2, [&](Transport& world) {
    Moody network(world, mood);
    OptimizerConfig config = choosing(GetParam());
    config.strict = true;
    Training training(config, network, {}, kMany);
    training.run_to(5);
    mood.long_is_slow = false;
    mood.short_is_slow = true;
    for (int i = 0; i < 45; ++i) {
      training.run_to(training.next());
      ASSERT_EQ(training.optimizer->stats().exchange, "coded");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Choosing,
                         ::testing::Values("one-bit-adam", "zero-one-adam", "birder",
                                           "distributed-lion"),
                         [](const auto& info) {
                           std::string text = info.param;
                           std::erase(text, '-');
                           return text;
                         });

TEST(Choosing, TakesTheFlatWayWhereNodesAreSlowInside) {
  const auto network = std::make_shared<Network>(4, 2, Link{}, Link{4e7, 0});
  run_ranks(4, [&](Transport& world) {
    const auto emulated = make_emulated(world, network);
    OptimizerConfig config = choosing("one-bit-adam", 2);
    config.strict = true;
    Training training(config, *emulated, {}, 4 * kMany);
    training.run_to(3);
    EXPECT_EQ(training.optimizer->stats().exchange, "flat");
    training.run_to(6);
    EXPECT_TRUE(equal_on_all(world, training.weights));
  });
}

TEST(Choosing, IsRefusedWhereEverythingIsExactAnyway) {
  EXPECT_TRUE(says(refusal_of([] { validated(choosing("adamw")); }),
                   {"exchange = auto", "adamw", "birder"}));
}

TEST(Choosing, OneRankHasNothingToChoose) {
  run_ranks(1, [](Transport& world) {
    Training training(choosing("birder"), world, {}, kMany);
    training.run_to(3);
    EXPECT_EQ(training.optimizer->stats().exchange, "");
  });
}

}  // namespace
}  // namespace laconic::testing
