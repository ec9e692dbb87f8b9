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
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(15));
    inner().post(exchange, in);
  }

 private:
  std::unique_ptr<Transport> wrap(Part part) override {
    return std::make_unique<Moody>(std::move(part), mood_);
  }
  Mood& mood_;
};

constexpr std::size_t kMany = 128 << 10;

OptimizerConfig choosing(Algorithm algorithm, int ranks_per_node = kFlat) {
  OptimizerConfig config = short_config(algorithm, ranks_per_node);
  config.total_steps = 1000;
  config.variance_freeze_step = 2;
  config.freeze_step = 2;
  config.double_every = 1000;
  config.bucket_elements = kMany;
  config.exchange = ExchangeForm::kAuto;
  return config;
}

// Steps until the exchange is described like this; the number of steps, or 0 if it never is.
int steps_until(Training& training, const std::string& wanted, int most) {
  for (int i = 1; i <= most; ++i) {
    training.run_to(training.next());
    if (training.optimizer->stats().exchange == wanted) return i;
  }
  return 0;
}

// It stays so for as long as a trial of the ways takes.
bool stays(Training& training, const std::string& wanted) {
  for (int i = 0; i < 12; ++i) {
    training.run_to(training.next());
    if (training.optimizer->stats().exchange != wanted) return false;
  }
  return true;
}

class Choosing : public ::testing::TestWithParam<Algorithm> {};

TEST_P(Choosing, FollowsANetworkThatChangesInTheMiddleOfARun) {
  Moody::Mood mood;
  mood.long_is_slow = true;
  run_ranks(2, [&](Transport& world) {
    Moody network(world, mood);
    Training training(choosing(GetParam()), network, {}, kMany);
    training.run_to(3);
    ASSERT_EQ(training.optimizer->stats().exchange, "coded");
    EXPECT_EQ(training.optimizer->stats().kind, "coded");
    EXPECT_TRUE(stays(training, "coded"));
    EXPECT_GT(steps_until(training, "coded", 40), 0);
    for (int i = 0; i < 40; ++i) training.run_to(training.next());  // its level is known
    mood.long_is_slow = false;
    mood.short_is_slow = true;
    EXPECT_GT(steps_until(training, "dense", 400), 0);
    EXPECT_TRUE(stays(training, "dense"));
    EXPECT_EQ(training.optimizer->stats().kind, "dense");
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
                         ::testing::Values(Algorithm::kOneBitAdam, Algorithm::kZeroOneAdam,
                                           Algorithm::kBirder),
                         [](const auto& info) {
                           std::string text = name(info.param);
                           std::erase(text, '-');
                           return text;
                         });

TEST(Choosing, TakesTheFlatWayWhereNodesAreSlowInside) {
  const auto network = std::make_shared<Network>(4, 2, Link{}, Link{4e7, 0});
  run_ranks(4, [&](Transport& world) {
    const auto emulated = make_emulated(world, network);
    OptimizerConfig config = choosing(Algorithm::kOneBitAdam, 2);
    config.strict = true;
    Training training(config, *emulated, {}, 4 * kMany);
    training.run_to(3);
    EXPECT_EQ(training.optimizer->stats().exchange, "flat");
    training.run_to(6);
    EXPECT_TRUE(equal_on_all(world, training.weights));
  });
}

TEST(Choosing, IsRefusedWhereEverythingIsExactAnyway) {
  EXPECT_TRUE(says(refusal_of([] { validated(choosing(Algorithm::kAdamW)); }),
                   {"exchange = auto", "adamw", "birder"}));
}

TEST(Choosing, OneRankHasNothingToChoose) {
  run_ranks(1, [](Transport& world) {
    Training training(choosing(Algorithm::kBirder), world, {}, kMany);
    training.run_to(3);
    EXPECT_EQ(training.optimizer->stats().exchange, "");
  });
}

// The law of residuals: what one-bit steps left unsaid is in the momentum after an exact one.
TEST(ExactSteps, SayWhatCodedOnesLeftUnsaid) {
  for (const int per_node : {kFlat, 2})
    run_ranks(4, [per_node](Transport& world) {
      OptimizerConfig config = short_config(Algorithm::kOneBitAdam, per_node);
      config.guard = true;
      config.beta1 = 0;  // the next momentum is the mean of gradients and of what is unsaid
      Training training(config, world, {}, kElements);
      training.run_to(10);
      ASSERT_EQ(training.optimizer->stats().kind, "coded");
      std::vector<float> unsaid(kElements, 0.0F);
      for (const State& state : training.optimizer->state())
        for (std::size_t k = 0; k < state.values.size(); ++k)
          if (state.name.ends_with("residual")) {
            const std::size_t bucket = static_cast<std::size_t>(state.name[6] - '0');
            const std::size_t at = bucket * config.bucket_elements + state.begin + k;
            const bool server = state.spread == Spread::kOwned;
            unsaid[at] += state.values[k] * (server ? 4 : per_node == 2 ? 2 : 1);
          }
      training.compute();
      for (std::size_t k = 0; k < kElements; ++k) unsaid[k] += training.gradient[k];
      const auto all = gathered(world, unsaid);
      training.optimizer->exchange_exactly(1);
      training.optimizer->step(training.lr(training.next()));
      EXPECT_EQ(training.optimizer->stats().kind, "dense");
      EXPECT_EQ(training.optimizer->stats().exchange, "dense");
      for (std::size_t k = 0; k < kElements; ++k) {
        const float mean = (all[0][k] + all[1][k] + all[2][k] + all[3][k]) / 4;
        const std::string m = "bucket" + std::to_string(k / config.bucket_elements) + "/m";
        ASSERT_NEAR(state_of(*training.optimizer, m)[k % config.bucket_elements], mean, 1e-5);
      }
      for (const State& state : training.optimizer->state()) {
        if (!state.name.ends_with("residual")) continue;
        for (const float value : state.values) ASSERT_EQ(value, 0);
      }
      training.run_to(12);
      EXPECT_EQ(training.optimizer->stats().kind, "coded");
      EXPECT_TRUE(equal_on_all(world, training.weights));
    });
}

TEST(ExactSteps, AreAskedForBetweenStepsAndWithGuard) {
  run_ranks(2, [](Transport& world) {
    OptimizerConfig config = short_config(Algorithm::kBirder);
    Training without(config, world);
    EXPECT_TRUE(says(refusal_of([&] { without.optimizer->exchange_exactly(2); }), {"guard"}));
    config.guard = true;
    Training with(config, world);
    with.run_to(1);
    with.optimizer->exchange_exactly(2);
    for (const char* kind : {"dense", "dense", "coded"}) {
      with.run_to(with.next());
      EXPECT_EQ(with.optimizer->stats().kind, kind);
    }
    EXPECT_EQ(with.optimizer->totals().dense, 2);
    EXPECT_TRUE(equal_on_all(world, with.weights));
  });
}

}  // namespace
}  // namespace laconic::testing
