#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "laconic/checkpoint/checkpoint.h"
#include "tests/checkpoint/scratch.h"
#include "tests/optim/training.h"

// Ranks are threads here: 4 of them, unless a test says otherwise.
namespace laconic::testing {
namespace {

constexpr int kRanks = 4;

TEST(DistributedLion, OfOneRankOrOfEqualGradientsIsLion) {
  for (const char* form : {"vote", "count"})
    for (const int ranks : {1, 3})
      run_ranks(ranks, [&](Transport& world) {
        OptimizerConfig config = short_config("distributed-lion");
        set(config, "form", form);
        Training votes(config, world), lion(short_config("lion"), world);
        for (Training* each : {&votes, &lion})
          each->gradient_of = [](std::int64_t t, int, std::size_t k) {
            return noise(t, 0, k) * static_cast<float>(1 << k % 3);  // sums of three are exact
          };
        for (std::int64_t t = 1; t <= kSteps; ++t) {
          votes.run_to(t);
          lion.run_to(t);
          for (std::size_t k = 0; k < kElements; ++k)
            ASSERT_NEAR(votes.weights[k], lion.weights[k], 1e-6F) << form << ", step " << t;
        }
      });
}

TEST(DistributedLion, GivesTheSameBitsOnNodes) {
  for (const char* form : {"vote", "count"})
    run_ranks(kRanks, [&](Transport& world) {
      std::vector<std::vector<float>> all;
      for (const int per_node : {kFlat, 2, 4}) {
        OptimizerConfig config = short_config("distributed-lion", per_node);
        set(config, "form", form);
        Training training(config, world);
        training.gradient_of = [](std::int64_t t, int rank, std::size_t k) {
          const bool rests = (k / 64 + static_cast<std::size_t>(rank + t)) % 3 == 0;
          return rests ? 0 : noise(t, rank, k);
        };
        training.run_to(kSteps);
        all.push_back(training.weights);
      }
      EXPECT_EQ(all[1], all[0]) << form;
      EXPECT_EQ(all[2], all[0]) << form;
    });
}

TEST(DistributedLion, WordsWithoutAGradientOnlyDecayWhateverTheirMomentum) {
  run_ranks(kRanks, [](Transport& world) {
    OptimizerConfig config = short_config("distributed-lion");
    Training training(config, world);
    training.gradient_of = [](std::int64_t t, int rank, std::size_t k) {
      return t > 5 && k / 64 == 1 ? 0 : noise(t, rank, k);
    };
    training.run_to(5);
    std::vector<float> expected(training.weights);
    for (std::int64_t t = 6; t <= 10; ++t) {
      training.run_to(t);
      const auto decay = static_cast<float>(1 - training.lr(t) * config.weight_decay);
      for (std::size_t k = 64; k < 128; ++k) {
        expected[k] *= decay;
        ASSERT_EQ(training.weights[k], expected[k]) << "step " << t << ", weight " << k;
        ASSERT_NE(state_of(*training.optimizer, "bucket0/m")[k], 0);
      }
    }
  });
}

// On two ranks that disagree every element is a tie: +1 where k + t is even, in every bucket.
TEST(DistributedLion, TiesAlternateByElementAndStep) {
  run_ranks(2, [](Transport& world) {
    OptimizerConfig config = short_config("distributed-lion");
    config.weight_decay = 0;
    Training training(config, world);
    training.gradient_of = [](std::int64_t, int rank, std::size_t) {
      return rank == 0 ? 1.0F : -1.0F;
    };
    for (std::int64_t t = 1; t <= 4; ++t) {
      const std::vector<float> before(training.weights);
      training.run_to(t);
      for (std::size_t k = 0; k < kElements; ++k) {
        const bool plus = (k % config.bucket_elements + static_cast<std::size_t>(t)) % 2 == 0;
        ASSERT_EQ(training.weights[k] < before[k], plus) << "step " << t << ", weight " << k;
      }
    }
  });
}

TEST(DistributedLion, MomentaAreReplacedByTheirMeanEverySoManySteps) {
  for (const int per_node : {kFlat, 2})
    run_ranks(kRanks, [&](Transport& world) {
      OptimizerConfig config = short_config("distributed-lion", per_node);
      Training apart(config, world);
      config.momentum_sync_every = 3;
      Training together(config, world);
      for (std::int64_t t = 1; t <= 4; ++t) {
        apart.run_to(t);
        together.run_to(t);
        const auto m = state_of(*together.optimizer, "bucket0/m");
        EXPECT_EQ(equal_on_all(world, m), t == 3) << "step " << t;
        const auto all = gathered(world, state_of(*apart.optimizer, "bucket0/m"));
        for (std::size_t k = 0; t == 3 && k < m.size(); ++k) {
          const float mean = (all[0][k] + all[1][k] + all[2][k] + all[3][k]) / 4;
          ASSERT_NEAR(m[k], mean, 2e-4) << k;  // two codes of a 254th of the largest each
        }
      }
    });
}

TEST(DistributedLion, ResumesOnOtherRanksFromTheMeanOfTheMomenta) {
  const Scratch scratch;
  const OptimizerConfig config = short_config("distributed-lion");
  std::vector<float> mean(128);
  run_ranks(kRanks, [&](Transport& world) {
    Training training(config, world);
    training.run_to(9);
    save_checkpoint(scratch / "run", *training.optimizer);
    const auto all = gathered(world, state_of(*training.optimizer, "bucket0/m"));
    for (std::size_t k = 0; world.rank() == 0 && k < mean.size(); ++k)
      mean[k] = (all[0][k] + all[1][k] + all[2][k] + all[3][k]) / 4;
  });
  run_ranks(2, [&](Transport& world) {
    Training training(config, world);
    EXPECT_EQ(load_checkpoint(scratch / "run", *training.optimizer), Resume::kRedistributed);
    const auto m = state_of(*training.optimizer, "bucket0/m");
    for (std::size_t k = 0; k < mean.size(); ++k) ASSERT_NEAR(m[k], mean[k], 1e-6) << k;
  });
}

// An exact step is by the mean of the signs; words at rest count as 0.
TEST(DistributedLion, StepsByTheMeanOfTheSignsWhereItIsExact) {
  run_ranks(kRanks, [](Transport& world) {
    OptimizerConfig config = short_config("distributed-lion");
    config.guard = true;
    config.weight_decay = 0;
    Training training(config, world);
    training.gradient_of = [](std::int64_t t, int rank, std::size_t k) {
      return rank == 3 && k < 64 ? 0 : noise(t, rank, k);
    };
    training.optimizer->exchange_exactly(1);
    const std::vector<float> before(training.weights);
    training.run_to(1);
    EXPECT_EQ(training.optimizer->stats().kind, "dense");
    for (std::size_t k = 0; k < kElements; ++k) {
      double mean = 0;
      for (int r = 0; r < kRanks; ++r)
        if (r != 3 || k >= 64) mean += std::copysign(0.25, noise(1, r, k));
      ASSERT_NEAR(training.weights[k], before[k] - training.lr(1) * mean, 1e-6) << k;
    }
    training.run_to(2);
    EXPECT_EQ(training.optimizer->stats().kind, "coded");
  });
}

}  // namespace
}  // namespace laconic::testing
