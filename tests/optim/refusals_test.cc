#include <gtest/gtest.h>

#include <limits>

#include "tests/optim/training.h"
#include "tests/support/thrown.h"

namespace laconic::testing {
namespace {

TEST_P(OptimizerSuite, RefusesMisuseAndGoesOn) {
  run([](Transport& world) {
    Training plain(config(), world, three_groups()), misused(config(), world, three_groups());
    plain.run_to(kSteps);
    Optimizer& optimizer = *misused.optimizer;
    const double bad[] = {-1, std::numeric_limits<double>::quiet_NaN(),
                          std::numeric_limits<double>::infinity()};
    for (std::int64_t t = 1; t <= kSteps; ++t) {
      expect_says(thrown([&] { optimizer.step(); }), Code::kInvalidArgument, {"step before begin"});
      expect_says(thrown([&] { optimizer.ready(0); }), Code::kInvalidArgument,
                  {"ready before begin"});
      for (const double lr : bad)
        expect_says(thrown([&] { optimizer.begin(lr); }), Code::kInvalidArgument,
                    {"learning rate"});
      misused.compute();
      optimizer.begin(misused.lr(t));
      expect_says(thrown([&] { optimizer.begin(0.1); }), Code::kInvalidArgument, {"twice"});
      expect_says(thrown([&] { optimizer.synchronize(); }), Code::kInvalidArgument,
                  {"inside a step"});
      optimizer.ready(2);
      expect_says(thrown([&] { optimizer.ready(2); }), Code::kInvalidArgument,
                  {"bucket 2", "second time"});
      for (const int bucket : {-1, optimizer.buckets()})
        expect_says(thrown([&] { optimizer.ready(bucket); }), Code::kInvalidArgument,
                    {"bucket " + std::to_string(bucket),
                     "there are " + std::to_string(optimizer.buckets())});
      optimizer.step();
    }
    std::vector<float> small(kElements - 1);
    expect_says(thrown([&] { optimizer.synced_weights(small); }), Code::kInvalidArgument,
                {"359", "360"});
    expect_same(bytes_of(plain), bytes_of(misused));
  });
}

// What make_optimizer says to this model.
std::optional<Error> refusal(const OptimizerConfig& config, const Model& model, Transport& world) {
  return thrown([&] { make_optimizer(config, model, world); });
}

TEST_P(OptimizerSuite, RefusesAModelThatDoesNotFitTogether) {
  run([](Transport& world) {
    std::vector<float> weights(100, 1), gradient(100);
    const auto untouched = weights;
    const std::span<float> w(weights), g(gradient);
    expect_says(refusal(config(), {w, g.first(99), {}, {}}, world), Code::kInvalidArgument,
                {"100", "99"});
    expect_says(refusal(config(), {w, g, {{.name = "a", .elements = 60}}, {}}, world),
                Code::kInvalidArgument, {"60", "100"});
    expect_says(
        refusal(config(), {w, g, {{.name = "a", .elements = 100, .lr_factor = -1}}, {}}, world),
        Code::kInvalidArgument, {"group a", "-1"});
    expect_says(refusal(config(),
                        {w, g, {{.name = "a", .elements = 100, .weight_decay = -0.5}}, {}}, world),
                Code::kInvalidArgument, {"group a", "-0.5"});
    expect_says(refusal(config(), {w, g, {}, {{"tail", 90, 11}}}, world), Code::kInvalidArgument,
                {"tail", "101", "100"});
    EXPECT_EQ(weights, untouched);
  });
}

TEST_P(OptimizerSuite, RefusesConstantsOutsideTheirRange) {
  run([](Transport& world) {
    std::vector<float> weights(100), gradient(100);
    for (const double value : {-0.1, 1.0, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
      OptimizerConfig config = OptimizerSuite::config();
      config.momentum = config.beta1 = config.beta2 = config.beta = value;
      expect_says(refusal(config, {weights, gradient, {}, {}}, world), Code::kInvalidArgument,
                  {" = ", "1"});
    }
  });
}

TEST_P(OptimizerSuite, RefusesRanksThatDiffer) {
  if (GetParam().ranks == 1) GTEST_SKIP() << "there is one rank";
  const std::string other = std::to_string(GetParam().ranks - 1);
  const auto refused = [&](const std::vector<std::string>& words,
                           const std::function<void(Transport&, bool odd)>& make) {
    run([&](Transport& world) {
      const bool odd = world.rank() == world.size() - 1;
      expect_says(thrown([&] { make(world, odd); }), Code::kInvalidArgument, words);
    });
  };
  refused({"rank " + other, "rank 0", "101 weights", "100 weights"},
          [](Transport& world, bool odd) { Training(config(), world, {}, odd ? 101 : 100); });
  refused({"rank " + other, "rank 0", "seed"}, [](Transport& world, bool odd) {
    OptimizerConfig config = OptimizerSuite::config();
    config.seed = odd ? 7 : 8;
    Training(config, world);
  });
  refused({"rank " + other, "rank 0", "group head"}, [](Transport& world, bool odd) {
    auto groups = three_groups();
    groups[2].weight_decay = odd ? 0.1 : 0.2;
    Training(config(), world, groups);
  });
  refused({"rank " + other, "rank 0", "first weights"}, [](Transport& world, bool odd) {
    Training training(config(), world);
    if (odd) training.weights[3] += 1;
    training.compute();
    training.optimizer->step(0.1);
  });
}

}  // namespace
}  // namespace laconic::testing
