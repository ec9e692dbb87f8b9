#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>

#include "laconic/checkpoint/checkpoint.h"
#include "laconic/optim/method.h"
#include "laconic/transport/emulated.h"
#include "laconic/transport/faulty.h"
#include "tests/checkpoint/scratch.h"
#include "tests/optim/training.h"
#include "tests/support/refusal.h"
#include "tests/support/thrown.h"

// Ranks that train alone, and exchange how far they moved.
namespace laconic::testing {
namespace {

Training::GradientOf of_noise() {
  return [](std::int64_t t, int rank, std::size_t k) { return noise(t, rank, k); };
}

OptimizerConfig local_config(int ranks_per_node = kFlat) {
  OptimizerConfig config = short_config("local-steps", ranks_per_node);
  config.outer = Outer::kNesterov;
  config.codec = GradientCodec::kInt4;
  config.every = 8;
  return config;
}

OptimizerConfig delayed_config() {
  OptimizerConfig config = local_config();
  config.fragments = 2;
  config.delay = 3;
  return config;
}

// Each law on every number of ranks, flat and on nodes.
template <typename Law>
void everywhere(const Law& law) {
  for (const Setting& one : settings())
    if (one.algorithm == "adamw")
      run_ranks(one.ranks, [&](Transport& world) {
        SCOPED_TRACE(std::to_string(one.ranks) + " ranks");
        law(world, one.per_node);
      });
}

TEST(LocalSteps, AveragedInEveryStepAreDataParallelSgd) {
  everywhere([](Transport& world, int per_node) {
    OptimizerConfig config = short_config("local-steps", per_node);
    config.inner = "sgdm";
    config.momentum = 0;
    config.every = 1;
    Training local(config, world, three_groups());
    config = short_config("sgdm", per_node);
    config.momentum = 0;
    Training together(config, world, three_groups());
    for (std::int64_t t = 1; t <= 50; ++t) {
      local.run_to(t);
      together.run_to(t);
      for (std::size_t k = 0; k < kElements; ++k)
        ASSERT_NEAR(local.weights[k], together.weights[k], 1e-6 * (1 + std::abs(local.weights[k])))
            << "step " << t << ", weight " << k;
    }
  });
}

// What is under way is applied before anything is learnt meanwhile; nothing is left to exchange.
TEST(LocalSteps, ADelayedExchangeThatIsFinishedAtOnceIsTheSynchronousOne) {
  everywhere([](Transport& world, int per_node) {
    OptimizerConfig config = local_config(per_node);
    config.outer = Outer::kAverage;
    config.codec = GradientCodec::kFp32;
    Training at_once(config, world, three_groups());
    config.delay = 5;
    Training delayed(config, world, three_groups());
    for (std::int64_t t = 1; t <= 40; ++t) {
      at_once.run_to(t);
      delayed.run_to(t);
      if (t % 8 == 0) delayed.optimizer->synchronize();
      ASSERT_EQ(at_once.weights, delayed.weights) << "step " << t;
    }
  });
}

// The last fragment is exchanged when the whole model would be.
TEST(LocalSteps, AFragmentMovesAsIfItWereTheModel) {
  everywhere([](Transport& world, int per_node) {
    OptimizerConfig config = local_config(per_node);
    Training whole(config, world);
    config.fragments = 2;
    Training parts(config, world);
    whole.gradient_of = parts.gradient_of = of_noise();
    const std::size_t cut = 192;  // 360/2, rounded up to a word
    OptimizerConfig alone = config;
    alone.fragments = 1;
    Training second(alone, world, {}, kElements - cut);
    std::copy(whole.weights.begin() + static_cast<std::ptrdiff_t>(cut), whole.weights.end(),
              second.weights.begin());
    second.gradient_of = [&](std::int64_t t, int rank, std::size_t k) {
      return noise(t, rank, cut + k);
    };
    for (std::int64_t t = 1; t <= 32; ++t) {
      parts.run_to(t);
      second.run_to(t);
      EXPECT_EQ(parts.optimizer->stats().kind, t % 4 == 0 ? "coded" : "silent");
      for (std::size_t k = cut; k < kElements; ++k)
        ASSERT_EQ(parts.weights[k], second.weights[k - cut]) << "step " << t << ", weight " << k;
    }
    for (int b = 0; b < parts.optimizer->buckets(); ++b) {
      const NamedRange bucket = parts.optimizer->bucket(b);
      EXPECT_TRUE(bucket.begin >= cut || bucket.begin + bucket.count <= cut);
    }
  });
}

TEST(LocalSteps, AnExchangeSendsTheBytesOfTheMeanAndNothingIsSentBetween) {
  everywhere([](Transport& world, int per_node) {
    for (const char* codec : {"fp32", "bf16", "int8", "int4"}) {
      OptimizerConfig config = short_config("local-steps", per_node);
      set(config, "codec", codec);
      Training local(config, world, three_groups());
      config.delay = 2;
      Training delayed(config, world, three_groups());
      OptimizerConfig every_step = short_config("sgdm", per_node);
      set(every_step, "codec", codec);
      Training mean(every_step, world, three_groups());
      mean.run_to(1);
      const StepStats& one = mean.optimizer->stats();
      for (std::int64_t t = 1; t <= 12; ++t) {
        local.run_to(t);
        delayed.run_to(t);
        const bool now = t % 4 == 0, later = t > 4 && t % 4 == 2;
        EXPECT_EQ(local.optimizer->stats().bytes_between, now ? one.bytes_between : 0) << t;
        EXPECT_EQ(local.optimizer->stats().bytes_inside, now ? one.bytes_inside : 0) << t;
        EXPECT_EQ(delayed.optimizer->stats().bytes_between, later ? one.bytes_between : 0) << t;
      }
    }
  });
}

TEST(LocalSteps, ADelayedResultDoesNotDependOnTheNetwork) {
  if (!ranks_are_threads()) GTEST_SKIP() << "the emulated network is of this process";
  const int ranks = 3;
  const auto slow = std::make_shared<Network>(ranks, 1, Link{1e6, 4e-3}, Link{});
  run_ranks(ranks, [&](Transport& world) {
    const auto emulated = make_emulated(world, slow);
    Training near(delayed_config(), world, three_groups());
    Training far(delayed_config(), *emulated, three_groups());
    for (std::int64_t t = 1; t <= 30; ++t) {
      near.run_to(t);
      far.run_to(t);
      ASSERT_EQ(near.weights, far.weights) << "step " << t;
    }
    expect_same(bytes_of(near), bytes_of(far));
    EXPECT_GT(far.optimizer->totals().waited_seconds, 0);
  });
}

TEST(LocalSteps, ResumeBitForBitInsideAnIntervalAndWithAnExchangeUnderWay) {
  const Scratch scratch;
  for (const Setting& one : settings()) {
    if (one.algorithm != "adamw") continue;
    run_ranks(one.ranks, [&](Transport& world) {
      for (const double merge : {kNoMerge, 0.5}) {
        OptimizerConfig config = delayed_config();
        config.ranks_per_node = one.per_node;
        config.merge = merge;
        Training whole(config, world, three_groups());
        for (std::int64_t t = 8; t <= 17; ++t) {
          whole.run_to(t);
          save_checkpoint(scratch / std::to_string(t), *whole.optimizer);
        }
        whole.run_to(30);
        Training undisturbed(config, world, three_groups());
        undisturbed.run_to(30);
        expect_same(bytes_of(whole), bytes_of(undisturbed));
        for (std::int64_t t = 8; t <= 17; ++t) {
          Training again(config, world, three_groups());
          again.run_to(5);
          EXPECT_EQ(load_checkpoint(scratch / std::to_string(t), *again.optimizer), Resume::kExact);
          again.run_to(30);
          SCOPED_TRACE("resumed at " + std::to_string(t));
          expect_same(bytes_of(whole), bytes_of(again));
        }
      }
    });
  }
}

TEST(LocalSteps, TheLastStepAppliesWhatIsUnderWayAndMakesAllRanksEqual) {
  everywhere([](Transport& world, int per_node) {
    for (const std::int64_t last : {13, 14, 16, 17}) {  // under way, applied, and both
      OptimizerConfig config = delayed_config();
      config.ranks_per_node = per_node;
      config.total_steps = last;
      Training known(config, world, three_groups());
      known.run_to(last);
      EXPECT_TRUE(equal_on_all(world, known.weights));
      std::vector<float> synced(kElements);
      known.optimizer->synced_weights(synced);
      EXPECT_EQ(synced, known.weights);
      config.total_steps = 0;
      Training open(config, world, three_groups());
      open.run_to(last);
      EXPECT_EQ(equal_on_all(world, open.weights), world.size() == 1);
      open.optimizer->synchronize();
      EXPECT_TRUE(equal_on_all(world, open.weights));
      // A last step that would begin an exchange makes it without delay; synchronize() comes after.
      if (last % 4 != 0) {
        EXPECT_EQ(open.weights, known.weights);
      }
    }
  });
}

TEST(LocalSteps, OtherRanksGoOnFromTheMeanOfWhatRanksMovedAndOfTheirMoments) {
  if (!ranks_are_threads()) GTEST_SKIP() << "the number of ranks changes";
  const Scratch scratch;
  OptimizerConfig config = delayed_config();
  config.fragments = 1;
  config.bucket_elements = 512;
  config.codec = GradientCodec::kFp32;
  std::vector<float> synced(kElements), expected;
  std::vector<double> moment(kElements), weight(kElements);
  run_ranks(4, [&](Transport& world) {
    Training training(config, world);
    training.run_to(9);  // an exchange began at 8
    save_checkpoint(scratch / "run", *training.optimizer);
    const auto m = gathered(world, state_of(*training.optimizer, "bucket0/m"));
    const auto x = gathered(world, training.weights);
    const auto moved = state_of(*training.optimizer, "bucket0/mean_displacement");
    if (world.rank() != 0) return;
    training.optimizer->synced_weights(synced);
    for (std::size_t k = 0; k < kElements; ++k) {
      for (const auto& one : m) moment[k] += one[k] / 4.0;
      for (const auto& one : x) weight[k] += one[k] / 4.0;
      // The first exchange: M = D, so x_sync - 0.7*(D + 0.9*D).
      expected.push_back(synced[k] - 0.7F * (moved[k] + 0.9F * moved[k]));
    }
  });
  run_ranks(2, [&](Transport& world) {
    Training training(config, world);
    training.run_to(3);
    EXPECT_EQ(load_checkpoint(scratch / "run", *training.optimizer), Resume::kRedistributed);
    const auto m = state_of(*training.optimizer, "bucket0/m");
    for (std::size_t k = 0; k < kElements; ++k) {
      ASSERT_NEAR(training.weights[k], weight[k], 1e-6) << k;
      ASSERT_NEAR(m[k], moment[k], 1e-6) << k;
    }
    std::vector<float> now(kElements);
    training.run_to(10);
    training.optimizer->synced_weights(now);
    EXPECT_EQ(now, synced) << "the exchange under way is not due yet";
    training.run_to(11);
    training.optimizer->synced_weights(now);
    EXPECT_EQ(now, expected);
    training.run_to(24);
    EXPECT_TRUE(all_finite(training));
  });
}

// Saved in the middle of an interval on 4 ranks, then synchronized at once: the mean of where the 4
// were, by the outer rule. Nothing that they learnt is lost.
TEST(LocalSteps, OtherRanksExchangeWhatWasLearntBeforeThem) {
  if (!ranks_are_threads()) GTEST_SKIP() << "the number of ranks changes";
  for (const int per_node : {kFlat, 2}) {
    const Scratch scratch;
    OptimizerConfig config = local_config(per_node);
    config.outer = Outer::kAverage;
    config.codec = GradientCodec::kFp32;
    std::vector<double> mean(kElements);
    run_ranks(4, [&](Transport& world) {
      Training training(config, world, three_groups());
      training.run_to(13);
      save_checkpoint(scratch / "run", *training.optimizer);
      const auto x = gathered(world, training.weights);
      if (world.rank() == 0)
        for (std::size_t k = 0; k < kElements; ++k)
          for (const auto& one : x) mean[k] += one[k] / 4.0;
    });
    config.ranks_per_node = kFlat;
    run_ranks(3, [&](Transport& world) {
      Training training(config, world, three_groups());
      EXPECT_EQ(load_checkpoint(scratch / "run", *training.optimizer), Resume::kRedistributed);
      training.optimizer->synchronize();
      std::vector<float> now(kElements);
      training.optimizer->synced_weights(now);
      for (std::size_t k = 0; k < kElements; ++k) {
        ASSERT_NEAR(now[k], mean[k], 1e-6 * (1 + std::abs(mean[k]))) << k;
        ASSERT_EQ(now[k], training.weights[k]) << k;
      }
    });
  }
}

// What Python does with an optimizer of torch's.
TEST(LocalSteps, TheCallerMayMoveTheWeights) {
  everywhere([](Transport& world, int per_node) {
    OptimizerConfig config = local_config(per_node);
    config.inner = "sgdm";
    config.momentum = 0;
    config.weight_decay = 0;
    Training inside(config, world);
    inside.gradient_of = of_noise();
    config.inner = "none";
    std::vector<float> weights = inside.weights;
    const auto outside = make_optimizer(
        config, {.weights = weights, .gradient = {}, .groups = {}, .ranges = {}}, world);
    for (std::int64_t t = 1; t <= 30; ++t) {
      inside.run_to(t);
      EXPECT_EQ(outside->exchanges_next(), t % 8 == 0) << "step " << t;
      outside->begin(inside.lr(t));
      const auto lr = static_cast<float>(inside.lr(t));
      for (std::size_t k = 0; k < kElements; ++k) weights[k] -= lr * noise(t, world.rank(), k);
      outside->step();
      ASSERT_EQ(weights, inside.weights) << "step " << t;
      EXPECT_EQ(outside->in_sync(), t % 8 == 0) << "step " << t;
    }
    outside->synchronize();
    EXPECT_TRUE(outside->in_sync());
    EXPECT_TRUE(equal_on_all(world, weights));
  });
}

// A rank whose displacement is not finite sends none, and takes up the common weights.
TEST(LocalSteps, ARankThatDivergedFollowsTheOthers) {
  everywhere([](Transport& world, int per_node) {
    for (const std::int64_t delay : {0, 3})
      for (const char* codec : {"fp32", "int4", "sign"}) {
        OptimizerConfig config = local_config(per_node);
        config.inner = "none";
        config.delay = delay;
        config.outer = Outer::kAverage;
        set(config, "codec", codec);
        std::vector<float> weights(kElements, 1.0F);
        const auto optimizer = make_optimizer(
            config, {.weights = weights, .gradient = {}, .groups = {}, .ranges = {}}, world);
        for (std::int64_t t = 1; t <= 20; ++t) {
          optimizer->begin(0.01);
          for (float& x : weights) x += 0.01F;
          if (t == 5 && world.rank() == 0) weights[70] = std::numeric_limits<float>::quiet_NaN();
          optimizer->step();
        }
        optimizer->synchronize();
        for (const float x : weights) ASSERT_TRUE(std::isfinite(x)) << codec;
        EXPECT_TRUE(equal_on_all(world, weights));
        EXPECT_EQ(optimizer->totals().bad_blocks > 0, world.rank() == 0) << codec << " " << delay;
      }
  });
}

TEST(LocalSteps, ADelayedExchangeThatFailsEndsTheStepThatNeedsIt) {
  if (!ranks_are_threads()) GTEST_SKIP() << "the group is unusable afterwards";
  const auto lose_the_last_rank = [](Transport& world) {
    const bool last = world.rank() == world.size() - 1;
    std::atomic<bool> armed = false;
    const auto faulty = make_faulty(world, {.die_at = -1,
                                            .before_post =
                                                [&](std::int64_t) {
                                                  if (armed) fail(Code::kTransport, "unplugged");
                                                },
                                            .on_arrival = nullptr});
    OptimizerConfig config = delayed_config();
    config.fragments = 1;
    Training training(config, *faulty);
    training.run_to(7);
    armed = last;
    training.run_to(10);  // the exchange of step 8 is due at 11
    const auto error = thrown([&] { training.run_to(11); });
    ASSERT_TRUE(error);
    if (last) {
      EXPECT_EQ(error->code(), Code::kTransport) << error->what();
    }
    EXPECT_EQ(training.optimizer->stats().step, 10);
  };
  run_ranks(3, lose_the_last_rank, {.timeout = std::chrono::seconds(2)});
}

TEST(LocalSteps, RefuseSettingsThatDoNotFit) {
  const auto refused = [](const std::function<void(OptimizerConfig&)>& change) {
    OptimizerConfig config = local_config();
    change(config);
    return refusal_of([&] { validated(config); });
  };
  EXPECT_TRUE(says(refused([](auto& c) { c.delay = 9; }), {"delay = 9", "every = 8", "at most 8"}));
  EXPECT_TRUE(says(refused([](auto& c) { c.delay = 5, c.fragments = 2; }),
                   {"delay = 5", "fragments = 2", "at most 4"}));
  EXPECT_TRUE(says(refused([](auto& c) { c.every = 0; }), {"every = 0", ">= 1"}));
  EXPECT_TRUE(
      says(refused([](auto& c) { c.fragments = 9; }), {"fragments = 9", "every = 8", "at most 8"}));
  EXPECT_TRUE(says(refused([](auto& c) { c.inner = "adam"; }), {"inner = adam", "adamw", "none"}));
  EXPECT_TRUE(says(refused([](auto& c) { c.inner = "birder"; }), {"inner = birder", "adamw"}));
  EXPECT_TRUE(says(refused([](auto& c) { c.merge = 0.5; }), {"merge = 0.5", "delay = 0"}));
  EXPECT_TRUE(says(refused([](auto& c) { c.inner = "none", c.max_grad_norm = 2; }),
                   {"inner = none", "max_grad_norm = 2"}));
  EXPECT_TRUE(says(refused([](auto& c) { c.guard = true, c.delay = 1; }), {"guard", "delay = 1"}));
  EXPECT_TRUE(says(
      refused([](auto& c) { c.codec = GradientCodec::kFp32, c.codec_down = GradientCodec::kInt8; }),
      {"codec_down = int8", "codec = fp32"}));
  EXPECT_TRUE(says(refused([](auto& c) { c.top_k = 4097; }), {"top_k = 4097", "4096"}));
  EXPECT_TRUE(says(refused([](auto& c) { c.gap_penalty = 0.5; }), {"gap_penalty = 0.5", ">= 1"}));
}

TEST(LocalSteps, RefuseAnotherIntervalOnAnotherRank) {
  run_ranks(rank_counts().back(), [](Transport& world) {
    if (world.size() == 1) return;
    OptimizerConfig config = local_config();
    if (world.rank() == 1) config.every = 12;
    EXPECT_TRUE(says(refusal_of([&] { Training(config, world); }), {"every = 8", "every = 12"}));
  });
}

TEST(LocalSteps, ChooseFeedbackThatConvergesUnderAnOuterMomentum) {
  OptimizerConfig config = local_config();
  EXPECT_EQ(validated(config).feedback, Feedback::kFull);
  config.codec = GradientCodec::kSign;
  EXPECT_EQ(validated(config).feedback, Feedback::kDecay);
  EXPECT_EQ(validated(config).feedback_decay, 0.8);
  config.outer = Outer::kAverage;
  EXPECT_EQ(validated(config).feedback, Feedback::kFull);
  run_ranks(rank_counts().front(), [](Transport& world) {
    OptimizerConfig signs = local_config();
    signs.codec = GradientCodec::kSign;
    EXPECT_EQ(Training(signs, world).optimizer->describe().find("diverges"), std::string::npos);
    signs.feedback = Feedback::kFull;
    EXPECT_NE(Training(signs, world).optimizer->describe().find("diverges"), std::string::npos);
  });
}

TEST(LocalSteps, PresetsAreDefaultsOfOneMethod) {
  OptimizerConfig config;
  config.algorithm = "diloco";
  EXPECT_EQ(validated(config).every, 500);
  EXPECT_EQ(validated(config).outer, Outer::kNesterov);
  EXPECT_EQ(validated(config).outer_lr, 0.7);
  EXPECT_EQ(validated(config).inner, "adamw");
  config.outer_lr = 0.4;
  config.every = 30;
  EXPECT_EQ(validated(config).outer_lr, 0.4);
  EXPECT_EQ(validated(config).every, 30);
  config = {.algorithm = "streaming-diloco"};
  EXPECT_EQ(validated(config).delay, 12);
  EXPECT_EQ(validated(config).fragments, 4);
  EXPECT_EQ(validated(config).codec, GradientCodec::kInt4);
  config.every = 4;
  EXPECT_EQ(validated(config).delay, 1);
  config.fragments = 1;
  EXPECT_EQ(validated(config).fragments, 1);
  config = {.algorithm = "co2"};
  config.every = 6;
  EXPECT_EQ(validated(config).delay, 6);
  config = {.algorithm = "dsm"};
  EXPECT_EQ(validated(config).outer, Outer::kSign);
  config = {.algorithm = "sparse-loco"};
  EXPECT_EQ(validated(config).codec, GradientCodec::kTopK);
  EXPECT_EQ(validated(config).feedback, Feedback::kDecay);
  EXPECT_EQ(validated(config).feedback_decay, 0.95);
  EXPECT_EQ(validated(config).outer, Outer::kAverage);
  EXPECT_EQ(method_named("dsm").preset_of, "local-steps");
  EXPECT_EQ(method_named("dsm").python, "DSM");
  EXPECT_EQ(method_named("local-adamw").python, "");  // around any optimizer it is local-steps
  EXPECT_EQ(method_named("diloco").find("every")->default_text(), "500");
  EXPECT_EQ(method_named("local-steps").find("every")->default_text(), "10");
  for (const Method* one : methods())
    if (!one->preset_of.empty()) {
      EXPECT_EQ(one->make_rule, method_named(one->preset_of).make_rule) << one->name;
    }
}

TEST(LocalSteps, BitsAreTheMeanOfBothWays) {
  const auto bits = [](OptimizerConfig config) {
    config = validated(config);
    return method_named(config.algorithm).coded_bits(config);
  };
  OptimizerConfig config{.algorithm = "sparse-loco"};
  const double up = 128 * 16 / 4096.0 + 32.0 / 4096, int8 = 8 + 32.0 / 256, int4 = 4 + 32.0 / 256;
  EXPECT_DOUBLE_EQ(bits(config), (up + int8) / 2);
  config.codec_down = GradientCodec::kInt4;
  EXPECT_DOUBLE_EQ(bits(config), (up + int4) / 2);
  config.top_k = 64;
  EXPECT_DOUBLE_EQ(bits(config), ((up - 32.0 / 4096) / 2 + 32.0 / 4096 + int4) / 2);
  EXPECT_DOUBLE_EQ(bits({.algorithm = "streaming-diloco"}), int4);
  EXPECT_DOUBLE_EQ(bits({.algorithm = "distributed-lion"}), 1);
}

TEST(LocalSteps, RoundsAreThoseOfTheRun) {
  run_ranks(rank_counts().front(), [](Transport& world) {
    for (const std::int64_t steps : {1, 7, 8, 9, 24}) {
      OptimizerConfig config = local_config();
      config.total_steps = steps;
      Training training(config, world);
      training.run_to(steps);
      const Rounds rounds = method_named("local-steps").rounds(validated(config), steps);
      EXPECT_EQ(rounds.coded, training.optimizer->totals().coded) << steps;
      EXPECT_EQ(rounds.dense, 0);
      config.fragments = 4;
      EXPECT_EQ(method_named("local-steps").rounds(validated(config), steps).coded,
                steps == 24  ? 4
                : steps <= 8 ? (steps > 1 ? 2 : 1)
                             : 2)
          << steps;
    }
  });
}

}  // namespace
}  // namespace laconic::testing
