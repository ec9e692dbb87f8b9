// A method of the caller's own, in one file: everything that knows methods knows it.
#include <gtest/gtest.h>

#include <functional>

#include "laconic/checkpoint/checkpoint.h"
#include "laconic/optim/gradient_rule.h"
#include "laconic/optim/method.h"
#include "laconic/optim/schedule.h"
#include "laconic/plan/cost.h"
#include "laconic/plan/recipes.h"
#include "tests/checkpoint/scratch.h"
#include "tests/optim/training.h"
#include "tests/support/refusal.h"

namespace laconic::testing {
namespace {

using C = OptimizerConfig;
constexpr double kPull = 0.5;

// u = u + pull * (mean - u); x = x * decay - lr * u.
class Averaging final : public GradientRule<Rule> {
 public:
  explicit Averaging(const Bucket& bucket) : GradientRule(bucket), u_(bucket.x.size()) {}

 private:
  std::vector<State> moments() override { return {{"u", u_.span(), Spread::kSame}}; }
  // A function of its own: on the host a method may do what is on no list.
  Sink update(const Step&) override {
    pull_ = static_cast<float>(own(*bucket_.config, "pull", kPull));
    return Take(move_);
  }

  Buffer<float> u_;
  float pull_ = 0;
  std::function<void(std::size_t, std::span<const float>)> move_ =
      [this](std::size_t at, std::span<const float> mean) {
        for (std::size_t k = 0; k < mean.size(); ++k) {
          u_[at + k] += pull_ * (mean[k] - u_[at + k]);
          float& x = bucket_.x[at + k];
          x = x * static_cast<float>(decay()) - static_cast<float>(lr()) * u_[at + k];
        }
      };
};

const bool kRegistered = [] {
  register_method({
      .name = "averaging",
      .title = "Averaging SGD",
      .summary = "SGD on a moving average of the mean gradient",
      .paper = "none",
      .exchanges = "gradient, exactly, every step",
      .codec = "fp32",
      .python = "",
      .options = {own_number("pull", kPull, "share of the average that a step replaces")},
      .exact = true,
      .cost = {.state = 4, .exact = {0, 1e-9}, .coded = {}},
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<Averaging>(bucket);
      },
      .make_schedule = [](const C&) { return every_step(Step::Kind::kDense); },
      .rounds = [](const C&, std::int64_t steps) { return Rounds{.steps = steps, .dense = steps}; },
  });
  return true;
}();

// What the ranks exchanged in one step moves the weights in the next: x = x * decay - lr * held.
class Delayed final : public Rule {
 public:
  explicit Delayed(const Bucket& bucket)
      : Rule(bucket), held_(bucket.x.size()), mean_(make_exact()) {}

  void step(const Step&) override {
    const SignUpdate update{static_cast<float>(lr()), static_cast<float>(decay()),
                            bucket_.x.data()};
    bucket_.device->run(Values{held_.data()}, update, held_.size());
    mean_->exchange(Values{bucket_.g.data()}, Store{held_.data()}, {});
  }
  std::vector<State> state() override { return {{"held", held_.span(), Spread::kSame}}; }
  std::string describe() const override { return mean_->describe(); }

 private:
  Buffer<float> held_;
  std::unique_ptr<Mean> mean_;
};

const bool kDelayedRegistered = [] {
  register_method({
      .name = "delayed",
      .title = "Delayed SGD",
      .summary = "SGD on the mean gradient of the step before",
      .paper = "none",
      .exchanges = "gradient, exactly, every step; applied one step later",
      .codec = "fp32",
      .python = "",
      .exact = true,
      .cost = {.state = 4, .exact = {0, 1e-9}, .coded = {}},
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<Delayed>(bucket);
      },
      .make_schedule = [](const C&) { return every_step(Step::Kind::kDense); },
      .rounds = [](const C&, std::int64_t steps) { return Rounds{.steps = steps, .dense = steps}; },
  });
  return true;
}();

TEST(OwnMethod, MayApplyAnExchangeInALaterStep) {
  ASSERT_TRUE(kDelayedRegistered);
  const Scratch scratch;
  run_ranks(rank_counts().back(), [&](Transport& world) {
    const C delayed = short_config("delayed");
    Training whole(delayed, world), resumed(delayed, world);
    const std::vector<float> first = whole.weights;
    whole.run_to(1);
    for (std::size_t k = 0; k < first.size(); ++k)  // nothing to apply yet but weight decay
      ASSERT_EQ(whole.weights[k],
                first[k] * static_cast<float>(1 - whole.lr(1) * delayed.weight_decay));
    save_checkpoint(scratch / "delayed", *whole.optimizer);
    load_checkpoint(scratch / "delayed", *resumed.optimizer);
    whole.run_to(9);
    resumed.run_to(9);
    EXPECT_TRUE(equal_on_all(world, whole.weights));
    expect_same(bytes_of(whole), bytes_of(resumed));
  });
}

C config() {
  C config = short_config("averaging");
  set(config, "pull", "0.25");
  return config;
}

TEST(OwnMethod, IsListedAndDescribed) {
  ASSERT_TRUE(kRegistered);
  EXPECT_EQ(methods()[methods().size() - 2]->name, "averaging");
  const Option* pull = method_named("Averaging").find("pull");
  ASSERT_NE(pull, nullptr);
  EXPECT_EQ(pull->default_text(), "0.5");
  EXPECT_EQ(to_text(config()).at("pull"), "0.25");
  EXPECT_EQ(to_text(C{}).at("pull"), "0.5");
}

TEST(OwnMethod, ItsOptionsAreChecked) {
  C wrong = config();
  EXPECT_TRUE(says(refusal_of([&] { set(wrong, "pull", "much"); }), {"pull", "much", "number"}));
  EXPECT_TRUE(says(refusal_of([&] { set(wrong, "pul", "1"); }), {"did you mean \"pull\""}));
  wrong.own["pull"] = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(says(refusal_of([&] { validated(wrong); }), {"pull = inf", "a finite number"}));
}

TEST(OwnMethod, TrainsAndResumesBitForBit) {
  const Scratch scratch;
  run_ranks(rank_counts().back(), [&](Transport& world) {
    Training whole(config(), world), first(config(), world), second(config(), world);
    whole.run_to(kSteps);
    EXPECT_TRUE(equal_on_all(world, whole.weights));
    EXPECT_NE(whole.weights[7], noise(0, -1, 7));
    EXPECT_TRUE(whole.optimizer->describe().starts_with("averaging, "));
    first.run_to(9);
    save_checkpoint(scratch / "checkpoint", *first.optimizer);
    load_checkpoint(scratch / "checkpoint", *second.optimizer);
    second.run_to(kSteps);
    expect_same(bytes_of(whole), bytes_of(second));
    C other = config();
    other.own["pull"] = 0.75;
    Training changed(other, world);
    EXPECT_TRUE(
        says(refusal_of([&] { load_checkpoint(scratch / "checkpoint", *changed.optimizer); }),
             {"pull = 0.25", "0.75"}));
  });
}

TEST(OwnMethod, IsPlanned) {
  const Rounds rounds = plan::default_rounds("averaging", 100);
  EXPECT_EQ(rounds.dense, 100);
  const plan::Cluster cluster{.nodes = 4, .inter = {1e9, 1e-5}, .intra = {}};
  const plan::Work work{.parameters = 1'000'000, .step_seconds = 0.01};
  const plan::MethodStep step{.algorithm = "averaging"};
  const plan::Average all = plan::predict(cluster, work, {}, step, rounds);
  EXPECT_GT(all.mean.seconds, 0.01);
  EXPECT_EQ(plan::memory_bytes(cluster, work, step), 12'000'000);
}

TEST(OwnMethod, ATakenOrIncompleteNameIsRefused) {
  EXPECT_TRUE(
      says(refusal_of([] { register_method(method_named("adamw")); }), {"adamw", "already"}));
  Method empty;
  empty.name = "empty";
  EXPECT_TRUE(says(refusal_of([&] { register_method(empty); }), {"empty", "make_rule"}));
}

}  // namespace
}  // namespace laconic::testing
