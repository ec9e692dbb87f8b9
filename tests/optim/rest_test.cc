// Ranges without a gradient, and steps that move no weights before they are finished.
#include <gtest/gtest.h>

#include <algorithm>

#include "laconic/checkpoint/checkpoint.h"
#include "tests/checkpoint/scratch.h"
#include "tests/optim/training.h"
#include "tests/support/refusal.h"

namespace laconic::testing {
namespace {

// Ranges that cross buckets (128 elements) and share words and scale blocks (64).
std::vector<NamedRange> ranges() { return {{"a", 0, 90}, {"b", 90, 130}, {"c", 220, 140}}; }

// The same ranges in both, since some methods move them apart.
Model plain_model() {
  Model model;
  model.ranges = ranges();
  return model;
}
Model resting_model() {
  Model model = plain_model();
  model.may_rest = true;
  return model;
}

// Whether a range has no gradient.
using Absence = std::function<bool(std::int64_t step, int rank, std::size_t range)>;

void step(Training& training, const Absence& absent) {
  const std::int64_t t = training.next();
  training.compute();
  const auto all = ranges();
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (absent(t, training.world.rank(), i)) {
      std::fill_n(training.gradient.begin() + static_cast<std::ptrdiff_t>(all[i].begin),
                  all[i].count, 0.0F);
      missing.push_back(i);
    }
  training.optimizer->begin(training.lr(t));
  if (training.optimizer->model().may_rest)
    for (const std::size_t i : missing) training.optimizer->absent(i);
  training.optimizer->step();
}

void run_to(Training& training, std::int64_t last, const Absence& absent) {
  while (training.next() <= last) step(training, absent);
}

Training::GradientOf of_noise() {
  return [](std::int64_t t, int rank, std::size_t k) { return noise(t, rank, k); };
}

const Absence kNever = [](std::int64_t, int, std::size_t) { return false; };

// The elements of the weights and of the state that lie in [begin, end) of the model.
std::map<std::string, std::vector<float>> part_of(Training& training, std::size_t begin,
                                                  std::size_t end) {
  std::map<std::string, std::vector<float>> all;
  Optimizer& optimizer = *training.optimizer;
  for (std::size_t k = begin; k < end; ++k) all["weights"].push_back(training.weights[k]);
  for (int b = 0; b < optimizer.buckets(); ++b)
    for (const State& state : optimizer.state()) {
      if (!state.name.starts_with("bucket" + std::to_string(b) + "/")) continue;
      const std::size_t first = optimizer.bucket(b).begin + state.begin;
      for (std::size_t k = 0; k < state.values.size(); ++k)
        if (first + k >= begin && first + k < end) all[state.name].push_back(state.values[k]);
    }
  return all;
}

TEST_P(OptimizerSuite, ARangeWithoutAGradientOnAnyRankStays) {
  run([](Transport& world) {
    Training training(config(), world, {}, kElements, resting_model());
    training.gradient_of = of_noise();
    const Absence b_rests = [](std::int64_t t, int, std::size_t range) {
      return range == 1 && t >= 4 && t != 11 && t != 12;
    };
    run_to(training, 3, b_rests);
    // At step 4 local steps exchange what the first three did; fragments do so until step 19.
    const auto moves = [](std::int64_t t) {
      return t == 11 || t == 12 || (t == 4 && alone() && !delayed());
    };
    for (std::int64_t t = 4; t <= kSteps; ++t) {
      auto before = part_of(training, 90, 220);
      const auto others = part_of(training, 220, kElements);
      // The residuals of dense rounds are dropped at the freeze, wherever they are.
      if (t == 1 + (method().name == "one-bit-adam" ? config().freeze_step
                                                    : config().variance_freeze_step))
        for (auto& [name, values] : before)
          if (name.find("/dense_") != std::string::npos) std::ranges::fill(values, 0.0F);
      step(training, b_rests);
      auto after = part_of(training, 90, 220);
      for (const auto& [name, values] : before)  // memory of an exchange that may be over
        if (name.ends_with("displacement") || name.ends_with("snapshot")) after[name] = values;
      if (moves(t))
        EXPECT_NE(after, before) << "step " << t;
      else if (!delayed() || t >= 20)
        EXPECT_EQ(after, before) << "step " << t;
      EXPECT_NE(part_of(training, 220, kElements), others) << "step " << t;
      EXPECT_TRUE(equal_on_all(world, training.weights) || !synced(*training.optimizer));
    }
  });
}

TEST_P(OptimizerSuite, ARangeWithAGradientOnSomeRankCountsAsZeroOnTheOthers) {
  if (alone()) return;  // ranks decide alone in every step
  run([](Transport& world) {
    if (world.size() == 1) return;
    Training rests(config(), world, {}, kElements, resting_model()),
        zeros(config(), world, {}, kElements, plain_model());
    rests.gradient_of = zeros.gradient_of = of_noise();
    // On local steps ranks decide alone, so those have all gradients.
    const Absence one_has_it = [&](std::int64_t t, int rank, std::size_t range) {
      return range == 1 && rank != t % world.size() && t <= 12;
    };
    for (std::int64_t t = 1; t <= kSteps; ++t) {
      step(rests, one_has_it);
      step(zeros, one_has_it);
      ASSERT_EQ(rests.weights, zeros.weights) << "step " << t;
    }
  });
}

TEST_P(OptimizerSuite, WhereEveryRangeHasItsGradientNothingChanges) {
  run([](Transport& world) {
    Training rests(config(), world, {}, kElements, resting_model()),
        plain(config(), world, {}, kElements, plain_model());
    run_to(rests, kSteps, kNever);
    plain.run_to(kSteps);
    EXPECT_EQ(rests.weights, plain.weights);
  });
}

// Buckets that are ready before step(), on each rank others.
TEST_P(OptimizerSuite, RanksAgreeOnWhatRestsInAnyOrderOfBuckets) {
  run([](Transport& world) {
    const Absence c_rests = [](std::int64_t t, int, std::size_t range) {
      return range == 2 && t % 3 != 0;
    };
    Training whole(config(), world, {}, kElements, resting_model()),
        parts(config(), world, {}, kElements, resting_model());
    whole.gradient_of = parts.gradient_of = of_noise();
    ASSERT_EQ(parts.optimizer->buckets(), delayed() ? 4 : 3);
    for (std::int64_t t = 1; t <= kSteps; ++t) {
      step(whole, c_rests);
      parts.compute();
      std::vector<int> early = {0};
      if (c_rests(t, 0, 2))
        std::fill(parts.gradient.begin() + 220, parts.gradient.end(), 0.0F);
      else
        early = {2, 1, 0};
      parts.optimizer->begin(parts.lr(t));
      if (world.rank() % 2 == 0)
        for (const int b : early) parts.optimizer->ready(b);
      if (c_rests(t, 0, 2)) parts.optimizer->absent(2);
      parts.optimizer->step();
      ASSERT_EQ(whole.weights, parts.weights) << "step " << t;
    }
  });
}

TEST_P(OptimizerSuite, ARunWithRestsResumesBitForBit) {
  const Scratch scratch;
  run([&](Transport& world) {
    // On odd ranks b has no gradient in some local steps either.
    const Absence some = [](std::int64_t t, int rank, std::size_t range) {
      return (range == 1 && t % 4 == 1) || (range == 1 && rank % 2 == 1) || (range == 2 && t < 3);
    };
    for (const std::int64_t cut : {5, 17, 22}) {
      Training whole(config(), world, {}, kElements, resting_model()),
          first(config(), world, {}, kElements, resting_model());
      run_to(whole, kSteps, some);
      run_to(first, cut, some);
      save_checkpoint(scratch / "checkpoint", *first.optimizer);
      Training second(config(), world, {}, kElements, resting_model());
      load_checkpoint(scratch / "checkpoint", *second.optimizer);
      run_to(second, kSteps, some);
      expect_same(bytes_of(whole), bytes_of(second));
    }
  });
}

TEST_P(OptimizerSuite, ACheckpointFromBeforeRestsIsTakenUp) {
  const Scratch scratch;
  run([&](Transport& world) {
    Training whole(config(), world, {}, kElements, plain_model()),
        first(config(), world, {}, kElements, plain_model());
    whole.run_to(kSteps);
    first.run_to(17);
    save_checkpoint(scratch / "checkpoint", *first.optimizer);
    Training second(config(), world, {}, kElements, resting_model());
    load_checkpoint(scratch / "checkpoint", *second.optimizer);
    run_to(second, kSteps, kNever);
    EXPECT_EQ(whole.weights, second.weights);
  });
}

TEST_P(OptimizerSuite, CountsTheStepsOfARangeAsTorchDoes) {
  if (!dense()) return;
  run([](Transport& world) {
    // c begins to train at step 8, a pauses.
    const Absence some = [](std::int64_t t, int, std::size_t range) {
      return (range == 2 && t < 8) || (range == 0 && t % 5 == 0);
    };
    Training together(config(), world, {}, kElements, resting_model());
    together.gradient_of = of_noise();
    together.lr = [](std::int64_t) { return 0.01; };
    run_to(together, kSteps, some);
    for (std::size_t i = 0; i < 3; ++i) {
      const NamedRange range = ranges()[i];
      Training apart(config(), world, {}, range.count);
      std::copy_n(
          Training(config(), world).weights.begin() + static_cast<std::ptrdiff_t>(range.begin),
          range.count, apart.weights.begin());
      apart.lr = together.lr;
      std::int64_t t = 0;
      apart.gradient_of = [&](std::int64_t, int rank, std::size_t k) {
        return noise(t, rank, range.begin + k);
      };
      for (t = 1; t <= kSteps; ++t)
        if (!some(t, 0, i)) {
          apart.compute();
          apart.optimizer->step(0.01);
        }
      for (std::size_t k = 0; k < range.count; ++k)
        ASSERT_EQ(apart.weights[k], together.weights[range.begin + k]) << range.name << " " << k;
    }
  });
}

TEST(Resting, NeedsRangesThatCoverTheModelInOrder) {
  run_ranks(rank_counts().front(), [](Transport& world) {
    Model model = resting_model();
    model.ranges.pop_back();
    EXPECT_TRUE(
        says(refusal_of([&] { Training(short_config("adamw"), world, {}, kElements, model); }),
             {"cover 220"}));
    model.ranges = {{"a", 0, 200}, {"b", 190, 170}};
    EXPECT_TRUE(
        says(refusal_of([&] { Training(short_config("adamw"), world, {}, kElements, model); }),
             {"190"}));
    Training plain(short_config("adamw"), world);
    plain.optimizer->begin(0.1);
    EXPECT_TRUE(says(refusal_of([&] { plain.optimizer->absent(0); }), {"may_rest"}));
    plain.optimizer->step();
  });
}

Model deferred_model() {
  Model model = resting_model();
  model.deferred = true;
  return model;
}

TEST_P(OptimizerSuite, DeferredStepsGiveTheSameBits) {
  run([](Transport& world) {
    const Absence b_pauses = [](std::int64_t t, int, std::size_t range) {
      return range == 1 && t % 4 == 0;
    };
    Training deferred(config(), world, {}, kElements, deferred_model()),
        plain(config(), world, {}, kElements, resting_model());
    EXPECT_EQ(deferred.optimizer->defers(), dense());
    run_to(deferred, kSteps, b_pauses);
    run_to(plain, kSteps, b_pauses);
    expect_same(bytes_of(deferred), bytes_of(plain));
  });
}

TEST_P(OptimizerSuite, ADeferredStepMayBeAbandonedByAnyRank) {
  if (!dense()) return;
  run([](Transport& world) {
    Training some(config(), world, {}, kElements, deferred_model()),
        plain(config(), world, {}, kElements, resting_model());
    for (std::int64_t t = 1; t <= kSteps; ++t) {
      step(plain, kNever);
      some.compute();
      for (float& g : some.gradient) g *= 7;
      const auto before = bytes_of(some);
      some.optimizer->begin(1.0);
      for (int b = world.rank() % 2; b < some.optimizer->buckets(); ++b) some.optimizer->ready(b);
      some.optimizer->step(world.rank() == t % world.size() ? Finish::kAbandon : Finish::kApply);
      EXPECT_EQ(some.optimizer->stats().kind, "skipped");
      expect_same(before, bytes_of(some));
      step(some, kNever);
    }
    EXPECT_EQ(some.weights, plain.weights);
  });
}

TEST_P(OptimizerSuite, ADeferredStepMayBeExchangedAgainAtOtherRates) {
  if (!dense()) return;
  run([](Transport& world) {
    Training late(config(), world, {}, kElements, deferred_model());
    Training plain(config(), world, {}, kElements, resting_model());
    for (std::int64_t t = 1; t <= kSteps; ++t) {
      step(plain, kNever);
      late.compute();
      late.optimizer->begin(0.5);
      for (int b = 0; b < late.optimizer->buckets(); ++b) late.optimizer->ready(b);
      const GroupStep rates[] = {{late.lr(t), config().weight_decay}};
      late.optimizer->change_rates(rates);
      late.optimizer->step(world.rank() == 0 ? Finish::kExchangeAgain : Finish::kApply);
      ASSERT_EQ(late.weights, plain.weights) << "step " << t;
    }
  });
}

Model watched_model() {
  Model model;
  model.watched = true;
  return model;
}

TEST_P(OptimizerSuite, GoesOnFromWeightsThatWereWrittenAfterASync) {
  run([](Transport& world) {
    Training training(config(), world, {}, kElements, watched_model());
    training.gradient_of = of_noise();
    training.run_to(8);
    if (delayed()) training.optimizer->synchronize();
    std::ranges::fill(training.weights, 3.0F);
    training.run_to(9);
    for (const float x : training.weights) EXPECT_NEAR(x, 3, 0.2);
    training.run_to(20);
    if (delayed()) training.optimizer->synchronize();
    ASSERT_TRUE(equal_on_all(world, training.weights));
    std::ranges::fill(training.weights, -3.0F);
    training.run_to(24);
    if (delayed()) training.optimizer->synchronize();
    for (const float x : training.weights) EXPECT_NEAR(x, -3, 0.5);
    EXPECT_TRUE(equal_on_all(world, training.weights));
  });
}

TEST(Writes, BetweenTwoSyncsAreRefusedBeforeAnythingMoves) {
  run_ranks(rank_counts().back(), [](Transport& world) {
    Training training(short_config("zero-one-adam"), world, {}, kElements, watched_model());
    training.run_to(18);
    ASSERT_EQ(training.optimizer->stats().kind, "silent");
    const float own = training.weights[5];
    training.weights[5] += 1;
    const auto before = bytes_of(training);
    EXPECT_TRUE(says(refusal_of([&] { training.optimizer->step(0.01); }),
                     {"all was written to after step 18", "synchronize()"}));
    EXPECT_TRUE(says(refusal_of([&] { training.optimizer->take_up_weights(); }), {"all was"}));
    expect_same(before, bytes_of(training));
    training.weights[5] = own;
    training.run_to(kSteps);
  });
}

TEST(Writes, AreTakenUpBeforeStateIsRead) {
  run_ranks(rank_counts().back(), [](Transport& world) {
    Training training(short_config("zero-one-adam"), world, {}, kElements, watched_model());
    training.run_to(10);
    training.optimizer->synchronize();
    training.weights[5] = 3;
    std::vector<float> synced(kElements);
    training.optimizer->synced_weights(synced);
    EXPECT_NE(synced[5], 3);
    training.optimizer->take_up_weights();
    training.optimizer->synced_weights(synced);
    EXPECT_EQ(synced, training.weights);
    training.run_to(11);
    EXPECT_NEAR(training.weights[5], 3, 0.2);
  });
}

}  // namespace
}  // namespace laconic::testing
