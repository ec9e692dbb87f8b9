#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "laconic/checkpoint/checkpoint.h"
#include "laconic/transport/emulated.h"
#include "laconic/transport/wrapper.h"
#include "tests/checkpoint/scratch.h"
#include "tests/optim/training.h"
#include "tests/support/refusal.h"

namespace laconic::testing {
namespace {

// A network that is slow with what is shorter or longer than a limit, and may change its mind.
class Moody final : public Wrapper {
 public:
  struct Mood {
    std::atomic<bool> short_is_slow{false}, long_is_slow{false};
    std::size_t limit = 32 << 10;  // bytes; a vote is never slow
  };
  static constexpr std::size_t kVote = 256;

  template <typename Inner>
  Moody(Inner&& inner, Mood& mood) : Wrapper(std::forward<Inner>(inner)), mood_(mood) {}
  void post(const Exchange& exchange, std::span<const std::byte> in) override {
    const bool slow = in.size() < mood_.limit ? in.size() > kVote && mood_.short_is_slow.load()
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

// Whether, within 400 steps, it is described like one of these for longer than a trial of the paths
// takes, and steps are of this kind.
bool settles_on(Training& training, const std::vector<std::string>& wanted,
                const std::string& kind) {
  int in_a_row = 0;
  for (int i = 0; i < 400 && in_a_row < 24; ++i) {
    training.run_to(training.next());
    const StepStats& stats = training.optimizer->stats();
    const bool described = std::ranges::find(wanted, stats.exchange) != wanted.end();
    in_a_row = described && stats.kind == kind ? in_a_row + 1 : 0;
  }
  return in_a_row == 24;
}
bool settles_on(Training& training, const std::string& wanted) {
  return settles_on(training, {wanted}, wanted);
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

// Messages of 128 Ki elements on two ranks, in KiB: fp32 256, bf16 128, int8 68, int4 36.
constexpr std::size_t kAboveInt4 = 50 << 10, kAboveInt8 = 100 << 10;

class ChoosingCodecs : public ::testing::TestWithParam<std::string> {};

TEST_P(ChoosingCodecs, FollowsANetworkThatChangesInTheMiddleOfARun) {
  Moody::Mood slow, fast;
  slow.limit = kAboveInt4;
  slow.long_is_slow = true;
  fast.limit = kAboveInt8;
  run_ranks(2, [&](Transport& world) {
    Moody inner(world, fast);
    Moody network(static_cast<Transport&>(inner), slow);
    Training training(choosing(GetParam()), network, {}, kMany);
    EXPECT_TRUE(settles_on(training, {"int4"}, "coded"));
    const std::string now = training.optimizer->describe();
    EXPECT_NE(now.find("int4 mean"), std::string::npos) << now;
    slow.long_is_slow = false;
    fast.short_is_slow = true;
    EXPECT_TRUE(settles_on(training, {"fp32", "bf16"}, "dense"));
    const std::string later = training.optimizer->describe();
    EXPECT_EQ(later.find("int4 mean"), std::string::npos) << later;
    EXPECT_TRUE(equal_on_all(world, training.weights));
    EXPECT_TRUE(all_finite(training));
  });
}

INSTANTIATE_TEST_SUITE_P(Algorithms, ChoosingCodecs,
                         ::testing::Values("adamw", "sgdm", "lion", "lamb:feedback=ema",
                                           "adamw:codec=int8"),
                         [](const auto& info) { return letters_of(info.param); });

TEST(ChoosingCodecs, SendsFourBitsOverAnEmulatedSlowLink) {
  const auto network = std::make_shared<Network>(2, 1, Link{2.5e6, 0});
  run_ranks(2, [&](Transport& world) {
    const auto emulated = make_emulated(world, network);
    Training training(choosing("adamw"), *emulated, {}, kMany);
    EXPECT_TRUE(settles_on(training, {"int4"}, "coded"));
    EXPECT_TRUE(equal_on_all(world, training.weights));
  });
}

TEST(ChoosingCodecs, StrictKeepsToTheConfiguredCodecOrAnExactOne) {
  Moody::Mood mood;
  mood.limit = 256;  // everything is slow: fewer bits would pay
  mood.long_is_slow = true;
  run_ranks(2, [&](Transport& world) {
    Moody network(world, mood);
    OptimizerConfig config = choosing("adamw:codec=int8");
    config.strict = true;
    Training training(config, network, {}, kMany);
    for (int i = 0; i < 8; ++i) {
      training.run_to(training.next());
      const std::string& path = training.optimizer->stats().exchange;
      ASSERT_TRUE(path == "coded" || path == "dense") << path;
    }
  });
}

TEST(ChoosingCodecs, TheGuardGoesExactlyAndComesBack) {
  Moody::Mood mood;
  mood.limit = kAboveInt4;
  mood.long_is_slow = true;
  run_ranks(2, [&](Transport& world) {
    Moody network(world, mood);
    OptimizerConfig config = choosing("adamw");
    config.guard = true;
    Training training(config, network, {}, kMany);
    EXPECT_TRUE(settles_on(training, {"int4"}, "coded"));
    training.optimizer->exchange_exactly(1);
    training.run_to(training.next());
    EXPECT_EQ(training.optimizer->stats().exchange, "fp32");
    EXPECT_EQ(training.optimizer->stats().kind, "dense");
    training.run_to(training.next());
    EXPECT_EQ(training.optimizer->stats().exchange, "int4");
  });
}

// The sum over paths, ranks and owners of what is still to be sent, as a part of the mean.
double residuals_of(Training& training) {
  double sum = 0;
  for (const State& state : training.optimizer->state()) {
    if (state.role != Role::kResidual) continue;
    const double share = state.spread == Spread::kOwned ? 1 : 1.0 / training.world.size();
    for (const float value : state.values) sum += share * value;
  }
  std::vector<double> all;
  training.world.gather(std::span<const double>(&sum, 1), all);
  return std::accumulate(all.begin(), all.end(), 0.0);
}

TEST(ChoosingCodecs, ResumesWithEveryResidualAlsoOnOtherRanks) {
  const Scratch scratch;
  Moody::Mood mood;
  mood.limit = kAboveInt4;
  mood.long_is_slow = true;
  double before = 0;
  run_ranks(2, [&](Transport& world) {
    Moody network(world, mood);
    Training training(choosing("adamw"), network, {}, kMany);
    EXPECT_TRUE(settles_on(training, {"int4"}, "coded"));
    save_checkpoint(scratch / "run", *training.optimizer);
    const auto saved = bytes_of(training);
    const double sum = residuals_of(training);
    if (world.rank() == 0) before = sum;
    EXPECT_NE(sum, 0);
    Training again(choosing("adamw"), network, {}, kMany);
    EXPECT_EQ(load_checkpoint(scratch / "run", *again.optimizer), Resume::kExact);
    expect_same(saved, bytes_of(again));
    again.run_to(again.next());
    EXPECT_TRUE(equal_on_all(world, again.weights));
  });
  for (const auto& [ranks, per_node] : {std::pair{3, kFlat}, {4, 2}})
    run_ranks(ranks, [&, per_node = per_node](Transport& world) {
      Training training(choosing("adamw", per_node), world, {}, kMany);
      EXPECT_EQ(load_checkpoint(scratch / "run", *training.optimizer), Resume::kRedistributed);
      // On nodes a residual is one of the node's mean, held by the rank whose shard it is.
      const double held = residuals_of(training) * (per_node == 2 ? 2 : 1);
      EXPECT_NEAR(held, before, 1e-3 * std::abs(before) + 1e-3);
      training.run_to(training.next());
      EXPECT_EQ(residuals_of(training), 0);  // the first step sends them, exactly
      EXPECT_TRUE(equal_on_all(world, training.weights));
    });
}

TEST(ChoosingCodecs, UncompressedGroupsStayExact) {
  Moody::Mood mood;
  mood.limit = kAboveInt4;
  mood.long_is_slow = true;
  run_ranks(2, [&](Transport& world) {
    Moody network(world, mood);
    Training training(
        choosing("adamw"), network,
        {{.name = "body", .elements = kMany}, {.name = "bias", .elements = 64, .compress = false}},
        kMany + 64);
    EXPECT_TRUE(settles_on(training, {"int4"}, "coded"));
    for (const State& state : training.optimizer->state())
      EXPECT_FALSE(state.role == Role::kResidual && state.name.starts_with("bucket1/"))
          << state.name;
  });
}

TEST(Choosing, IsRefusedWhereEverythingIsExactAnyway) {
  OptimizerConfig config = choosing("adamw");
  EXPECT_NO_THROW(validated(config));
  config.strict = true;
  EXPECT_TRUE(says(refusal_of([&] { validated(config); }),
                   {"exchange = auto", "adamw", "strict", "lossy codec", "birder"}));
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
