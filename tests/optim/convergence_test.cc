#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "laconic/optim/learning_rate.h"
#include "tests/optim/training.h"

// Ranks are threads here: 4 and 8 of them.
namespace laconic::testing {
namespace {

constexpr std::int64_t kRun = 1000;

OptimizerConfig recipe(const std::string& algorithm) {
  OptimizerConfig config = config_named(algorithm);
  config.total_steps = kRun;
  config.scale_block = 64;
  config.beta2 = 0.99;
  config.min_trust = 0.5;  // weights begin at 0, where they have no norm to go by
  config.every = 4;
  return config;
}

// Half the sum of c (x - x*)^2, its gradient seen through noise as large as itself at the start.
struct Quadratic {
  static constexpr std::size_t kWeights = 256;
  static double curvature(std::size_t k) { return 0.2 + 0.8 * static_cast<double>(k % 8) / 8; }
  static double best(std::size_t k) { return noise(-1, -1, k); }

  static double excess(std::span<const float> x) {
    double sum = 0;
    for (std::size_t k = 0; k < x.size(); ++k)
      sum += curvature(k) / 2 * (x[k] - best(k)) * (x[k] - best(k));
    return sum;
  }
};

struct Outcome {
  std::vector<double> excess;  // after each step, of the synced weights
  std::vector<float> weights;
  Totals totals;
};

using Rates = std::function<double(std::int64_t)>;

Outcome minimise(const OptimizerConfig& config, int ranks, const Rates& lr,
                 std::int64_t synchronize_every = 0) {
  Outcome outcome;
  run_ranks(ranks, [&](Transport& world) {
    Training training(config, world, {}, Quadratic::kWeights);
    std::fill(training.weights.begin(), training.weights.end(), 0.F);
    training.gradient_of = [&](std::int64_t t, int rank, std::size_t k) {
      return static_cast<float>(Quadratic::curvature(k) *
                                (training.weights[k] - Quadratic::best(k))) +
             noise(t, rank, k);
    };
    training.lr = lr;
    std::vector<float> shared(Quadratic::kWeights);
    for (std::int64_t t = 1; t <= kRun; ++t) {
      training.run_to(t);
      if (synchronize_every > 0 && t % synchronize_every == 0) {
        training.optimizer->synchronize();
        EXPECT_TRUE(equal_on_all(world, training.weights)) << "step " << t;
      }
      training.optimizer->synced_weights(shared);
      if (world.rank() == 0) outcome.excess.push_back(Quadratic::excess(shared));
    }
    if (world.rank() != 0) return;
    outcome.weights = training.weights;
    outcome.totals = training.optimizer->totals();
  });
  return outcome;
}

Rates cosine(double peak) {
  return LearningRate{
      .peak = peak, .warmup = 50, .total = kRun, .decay = LearningRate::Decay::kCosine};
}

class Convergence : public ::testing::TestWithParam<int> {};

TEST_P(Convergence, OnANoisyQuadraticLeavesOnePercentOfTheExcess) {
  const double first = Quadratic::excess(std::vector<float>(Quadratic::kWeights));
  for (const char* algorithm : kAlgorithms) {
    const double excess = minimise(recipe(algorithm), GetParam(), cosine(0.02)).excess.back();
    EXPECT_LE(excess, 0.01 * first) << algorithm;
  }
}

TEST_P(Convergence, ZeroOneAdamNeedsFewerThanHalfTheRoundsAsPublished) {
  OptimizerConfig config = recipe("zero-one-adam");
  config.schedule = IntervalSchedule::kPublished;
  const Totals totals = minimise(config, GetParam(), cosine(0.02)).totals;
  EXPECT_LT(2 * totals.rounds(), totals.steps);
}

// 0/1 Adam stays with AdamW: never far above it, and as good in the end.
void expect_stays_with_adamw(const Outcome& zero_one, const Outcome& adamw) {
  const double first = Quadratic::excess(std::vector<float>(Quadratic::kWeights));
  for (std::size_t t = 0; t < zero_one.excess.size(); ++t)
    ASSERT_LE(zero_one.excess[t], 1.5 * adamw.excess[t] + (t < 200 ? 0.05 : 0.003) * first)
        << "step " << t + 1;
  EXPECT_LE(zero_one.excess.back(), 0.01 * first);
}

TEST_P(Convergence, ATenfoldDropOfTheLearningRateDoesNotShakeZeroOneAdam) {
  const Rates drop = [](std::int64_t t) { return t <= 500 ? 0.02 : t <= 700 ? 0.002 : 0.0002; };
  for (const std::int64_t double_every : {kUnset, kAuto}) {
    OptimizerConfig config = recipe("zero-one-adam");
    config.double_every = double_every;
    expect_stays_with_adamw(minimise(config, GetParam(), drop),
                            minimise(recipe("adamw"), GetParam(), drop));
  }
}

TEST_P(Convergence, CosineRestartsDoNotShakeZeroOneAdam) {
  const Rates restarts = [](std::int64_t t) {
    return 0.02 * 0.5 * (1 + std::cos(3.14159265 * static_cast<double>((t - 1) % 250) / 250));
  };
  for (const std::int64_t double_every : {kUnset, kAuto}) {
    OptimizerConfig config = recipe("zero-one-adam");
    config.double_every = double_every;
    expect_stays_with_adamw(minimise(config, GetParam(), restarts),
                            minimise(recipe("adamw"), GetParam(), restarts));
  }
}

TEST_P(Convergence, SynchronizingEveryFiftyStepsDoesNoHarm) {
  const Outcome adamw = minimise(recipe("adamw"), GetParam(), cosine(0.02));
  expect_stays_with_adamw(minimise(recipe("zero-one-adam"), GetParam(), cosine(0.02), 50), adamw);
}

// Two classes told apart by 63 features and a bias; each rank draws its own examples.
struct Logistic {
  static constexpr std::size_t kWeights = 64, kBatch = 32;

  static void example(std::int64_t step, int rank, std::size_t number, float* features) {
    for (std::size_t k = 0; k + 1 < kWeights; ++k)
      features[k] = noise(step, rank, 1000 * number + k);
    features[kWeights - 1] = 1;
  }
  static bool label(const float* features, float luck) {
    double z = 0;
    for (std::size_t k = 0; k < kWeights; ++k) z += 2 * noise(-2, -1, k) * features[k];
    return 1 / (1 + std::exp(-z)) > (luck + 1) / 2;
  }
  // The loss of one example; its gradient is added, divided by `batch`.
  static double loss(const std::vector<float>& x, const float* features, bool positive,
                     std::vector<float>* gradient, float batch) {
    double z = 0;
    for (std::size_t k = 0; k < kWeights; ++k) z += x[k] * features[k];
    const double p = 1 / (1 + std::exp(-z));
    if (gradient != nullptr)
      for (std::size_t k = 0; k < kWeights; ++k)
        (*gradient)[k] += static_cast<float>(p - (positive ? 1 : 0)) * features[k] / batch;
    return -std::log(positive ? p : 1 - p);
  }
  static double test_loss(const std::vector<float>& x) {
    double sum = 0;
    float features[kWeights];
    for (std::size_t i = 0; i < 2000; ++i) {
      example(-3, -1, i, features);
      sum += loss(x, features, label(features, noise(-4, -1, i)), nullptr, 1);
    }
    return sum / 2000;
  }
};

double fitted_loss(std::string algorithm, int ranks) {
  double loss = 0;
  run_ranks(ranks, [&](Transport& world) {
    Training training(recipe(algorithm), world, {}, Logistic::kWeights);
    std::fill(training.weights.begin(), training.weights.end(), 0.F);
    // Birder's steps are shorter than its rate where gradients are noisy, Lion's never are.
    const Rates lr = cosine(algorithm == "birder"         ? 0.05
                            : algorithm.ends_with("lion") ? 0.005
                                                          : 0.02);
    float features[Logistic::kWeights];
    for (std::int64_t t = 1; t <= kRun; ++t) {
      std::fill(training.gradient.begin(), training.gradient.end(), 0.F);
      for (std::size_t i = 0; i < Logistic::kBatch; ++i) {
        Logistic::example(t, world.rank(), i, features);
        const bool positive = Logistic::label(features, noise(t, world.rank(), 900'000 + i));
        Logistic::loss(training.weights, features, positive, &training.gradient, Logistic::kBatch);
      }
      training.optimizer->step(lr(t));
    }
    if (world.rank() == 0) loss = Logistic::test_loss(training.weights);
  });
  return loss;
}

TEST_P(Convergence, OnALogisticRegressionEndsWithinTwoPercentOfAdamW) {
  const double adamw = fitted_loss("adamw", GetParam());
  EXPECT_LT(adamw, 0.6);
  for (const std::string algorithm :
       {"one-bit-adam", "one-bit-lamb", "zero-one-adam", "birder", "lion", "distributed-lion"})
    EXPECT_LE(fitted_loss(algorithm, GetParam()), 1.02 * adamw) << algorithm;
}

INSTANTIATE_TEST_SUITE_P(Ranks, Convergence, ::testing::Values(4, 8));

}  // namespace
}  // namespace laconic::testing
