// The problem of the examples: logistic regression on data that every rank generates for itself.
#pragma once

#include <laconic/optim/optimizer.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <span>

constexpr std::size_t kFeatures = 1000;

// Fills `gradient` from one batch of this rank; returns the loss. The truth is a weight of 1 on
// every third feature.
inline double gradient_of(std::span<const float> weights, std::span<float> gradient,
                          std::mt19937& random) {
  constexpr int kBatch = 32;
  std::normal_distribution<float> normal;
  std::vector<float> x(kFeatures);
  double loss = 0;
  std::fill(gradient.begin(), gradient.end(), 0.0F);
  for (int i = 0; i < kBatch; ++i) {
    float score = 0, truth = 0;
    for (std::size_t k = 0; k < kFeatures; ++k) {
      x[k] = normal(random) / std::sqrt(float{kFeatures});
      score += weights[k] * x[k];
      truth += k % 3 == 0 ? 3 * x[k] : 0;
    }
    const float label = truth > 0 ? 1 : -1, miss = 1 / (1 + std::exp(label * score));
    loss += std::log1p(std::exp(-label * score)) / kBatch;
    for (std::size_t k = 0; k < kFeatures; ++k) gradient[k] -= label * miss * x[k] / kBatch;
  }
  return loss;
}

// Trains on one rank of `world` and prints what it cost.
inline void train(laconic::Transport& world) {
  constexpr int kSteps = 400;
  std::vector<float> weights(kFeatures), gradient(kFeatures);
  const auto optimizer = laconic::make_optimizer(
      {.algorithm = "zero-one-adam", .total_steps = kSteps},
      {.weights = weights, .gradient = gradient, .groups = {}, .ranges = {}}, world);
  if (world.rank() == 0) std::printf("%s\n", optimizer->describe().c_str());
  std::mt19937 random(static_cast<unsigned>(world.rank()));
  double loss = 0;
  for (int t = 1; t <= kSteps; ++t) {
    loss = gradient_of(weights, gradient, random);
    optimizer->step(0.03);
  }
  const laconic::Totals& cost = optimizer->totals();
  if (world.rank() == 0)
    std::printf("loss %.3f after %lld steps: %lld rounds, %llu bytes sent by this rank\n", loss,
                static_cast<long long>(cost.steps), static_cast<long long>(cost.rounds()),
                static_cast<unsigned long long>(cost.bytes));
}
