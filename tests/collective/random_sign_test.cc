#include <gtest/gtest.h>

#include <limits>

#include "laconic/device/host.h"
#include "tests/support/means.h"
#include "tests/support/random_sign_simulation.h"

namespace laconic::testing {
namespace {

constexpr std::size_t kElements = 131072;

// u of a rank, the same for all elements. bf16 holds it exactly, so that nodes average it exactly.
float u_of(int rank) {
  constexpr float kAll[] = {-0.75F, 0.125F, 0.5F, 1.0F, 0.0F, -0.25F, 0.625F, -1.0F};
  return kAll[rank];
}

class RandomSignMean : public MeanTest {
 protected:
  static RandomForm form() { return setting().sort.config.form; }
  static bool counts() { return form() == RandomForm::kCount; }
  static bool single_round() { return form() == RandomForm::kSingleRound; }

  static std::unique_ptr<Mean> make(const Nodes& nodes, Device& device) {
    return make_mean(setting().config(kElements), nodes, device);
  }

  // Mean and variance over `elements` of one exchange with value(k) and active(word) on this rank.
  template <typename Value, typename Active>
  static std::vector<float> exchange(Mean& mean, std::uint64_t step, const Value& value,
                                     const Active& active) {
    std::vector<float> result(kElements);
    mean.exchange(
        [&](Tile& tile) {
          EXPECT_TRUE(tile.random);
          tile.active = 0;
          for (std::size_t k = 0; k < tile.count; ++k) {
            tile.values[k] = value(tile.begin + k);
            if (active((tile.begin + k) / 64)) tile.active |= std::uint64_t{1} << k / 64;
          }
          return true;
        },
        [&](std::size_t begin, std::span<const float> part) {
          std::copy(part.begin(), part.end(), result.begin() + static_cast<std::ptrdiff_t>(begin));
        },
        {.step = step});
    return result;
  }
};

bool always(std::size_t) { return true; }

struct Moments {
  double mean = 0, variance = 0;
};
Moments moments(std::span<const float> values) {
  Moments m;
  for (const float value : values) m.mean += static_cast<double>(value);
  m.mean /= static_cast<double>(values.size());
  for (const float value : values)
    m.variance += (static_cast<double>(value) - m.mean) * (static_cast<double>(value) - m.mean);
  m.variance /= static_cast<double>(values.size());
  return m;
}

double mean_of_u(int first, int ranks) {
  double sum = 0;
  for (int r = first; r < first + ranks; ++r) sum += static_cast<double>(u_of(r));
  return sum / ranks;
}

TEST_P(RandomSignMean, PlusOneHasTheProbabilityOfTheMean) {
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make(nodes, device);
    const float u = u_of(world.rank());
    const auto result = exchange(
        *mean, 11, [u](std::size_t) { return u; }, always);
    for (const float r : result) ASSERT_TRUE(counts() || r == 1 || r == -1) << r;
    const double wanted = mean_of_u(0, world.size());
    // The elements of a dealt word share their rank: fewer are independent, so more may differ.
    const double independent =
        static_cast<double>(kElements) / (single_round() && world.size() > 1 ? 64 : 1);
    EXPECT_NEAR(moments(result).mean, wanted, 5 * std::sqrt((1 - wanted * wanted) / independent));
  });
}

TEST_P(RandomSignMean, ElementsOfDifferentValueHaveTheirOwnProbability) {
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make(nodes, device);
    const auto value = [&](std::size_t k) {
      return u_of((world.rank() + static_cast<int>(k)) % 8);
    };
    const auto result = exchange(*mean, 3, value, always);
    for (int offset = 0; offset < 8; ++offset) {
      std::vector<float> part;
      for (std::size_t k = static_cast<std::size_t>(offset); k < kElements; k += 8)
        part.push_back(result[k]);
      double wanted = 0;
      for (int r = 0; r < world.size(); ++r)
        wanted += static_cast<double>(u_of((r + offset) % 8)) / world.size();
      const double independent =
          static_cast<double>(part.size()) / (single_round() && world.size() > 1 ? 8 : 1);
      EXPECT_NEAR(moments(part).mean, wanted,
                  5 * std::sqrt((1 - wanted * wanted) / independent) + 1e-12)
          << offset;
    }
  });
}

TEST_P(RandomSignMean, CertaintyStaysCertain) {
  run([](Transport&, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make(nodes, device);
    for (const float u : {1.0F, -1.0F}) {
      const auto result = exchange(
          *mean, 4, [u](std::size_t) { return u; }, always);
      EXPECT_EQ(first_difference(result, std::vector<float>(kElements, u)), "");
    }
  });
}

TEST_P(RandomSignMean, BoundsDivideTheValues) {
  run([](Transport&, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make(nodes, device);
    const std::vector<float> values(kElements, -0.02F), bounds(kElements, 0.04F);
    std::vector<float> result(kElements);
    mean->exchange(
        [&](Tile& tile) {
          std::copy_n(values.data() + tile.begin, tile.count, tile.values);
          tile.bounds = bounds.data() + tile.begin;
          return true;
        },
        [&](std::size_t begin, std::span<const float> part) {
          std::copy(part.begin(), part.end(), result.begin() + static_cast<std::ptrdiff_t>(begin));
        },
        {.step = 8});
    EXPECT_NEAR(moments(result).mean, -0.5, 5 * std::sqrt(0.75 / static_cast<double>(kElements)));
  });
}

TEST_P(RandomSignMean, CountsHaveVoicesTimesLessVariance) {
  if (!counts()) GTEST_SKIP() << "counts only";
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const float u = u_of(world.rank());
    const auto result = exchange(
        *make(nodes, device), 11, [u](std::size_t) { return u; }, always);
    double variance = 0;
    for (int node = 0; node < setting().nodes(); ++node) {
      const double of_node = mean_of_u(node * setting().per_node, setting().per_node);
      variance += (1 - of_node * of_node) / (setting().nodes() * setting().nodes());
    }
    const Moments has = moments(result);
    EXPECT_NEAR(has.variance, variance, 0.03 * variance + 1e-12);
    EXPECT_LE(has.variance, (1 - has.mean * has.mean) / setting().nodes() * 1.03);
  });
}

TEST_P(RandomSignMean, WordsThatAreZeroEverywhereRest) {
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make(nodes, device);
    std::vector<float> values(kElements);
    for (std::size_t k = 0; k < kElements; ++k)
      if (k / 64 % 5 == 2) values[k] = k % 64 == 7 ? u_of(world.rank()) + 0.01F : 0.0F;
    mean->reduce(values);
    for (std::size_t k = 0; k < kElements; ++k) {
      const float size = std::fabs(values[k]);
      const bool rests = k / 64 % 5 != 2;
      ASSERT_TRUE(rests ? size == 0 : counts() ? size <= 1 : size == 1) << k << ": " << values[k];
    }
  });
}

// Word w is active on rank w % n only: r is its sign there, however the others would vote. A dealt
// word moves when its rank is the active one.
TEST_P(RandomSignMean, AWordIsAveragedOverTheRanksOnWhichItIsActive) {
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const auto ranks = static_cast<std::size_t>(world.size());
    const auto me = static_cast<std::size_t>(world.rank());
    const auto result = exchange(
        *make(nodes, device), 6,
        [&](std::size_t k) { return (k / 64 % ranks == me) == (k % 2 == 0) ? 1.0F : -1.0F; },
        [&](std::size_t w) { return w % ranks == me; });
    double moved = 0;
    for (std::size_t k = 0; k < kElements; ++k) {
      const float wanted = k % 2 == 0 ? 1.0F : -1.0F;
      if (single_round() && result[k] == 0) continue;
      ASSERT_EQ(result[k], wanted) << k;
      ++moved;
    }
    const double n = static_cast<double>(ranks), words = kElements / 64.0;
    const double share = single_round() ? 1 / n : 1;
    EXPECT_NEAR(moved / kElements, share, 5 * std::sqrt(share * (1 - share) / words));
  });
}

TEST_P(RandomSignMean, TwoActiveRanksShareAWord) {
  if (single_round() || setting().ranks < 3 || !setting().flat())
    GTEST_SKIP() << "flat, of three ranks or more";
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const float u = world.rank() == 0 ? 0.5F : world.rank() == 1 ? 0.25F : -1.0F;
    const auto result = exchange(
        *make(nodes, device), 6, [&](std::size_t) { return u; },
        [&](std::size_t) { return world.rank() < 2; });
    EXPECT_NEAR(moments(result).mean, 0.375, 5 / std::sqrt(static_cast<double>(kElements)));
  });
}

TEST_P(RandomSignMean, StepsSeedsAndBucketsDrawAnew) {
  run([](Transport&, const Nodes& nodes) {
    HostDevice device(1);
    const auto drawn = [&](std::uint32_t seed, std::uint32_t bucket, std::uint64_t step) {
      auto config = setting().config(kElements);
      config.seed = seed;
      config.bucket = bucket;
      const auto mean = make_mean(config, nodes, device);
      return exchange(
          *mean, step, [](std::size_t) { return 0.0F; }, always);
    };
    const auto first = drawn(1, 0, 1);
    EXPECT_EQ(first_difference(drawn(1, 0, 1), first), "");
    for (const auto& other : {drawn(1, 0, 2), drawn(2, 0, 1), drawn(1, 1, 1)}) {
      double product = 0;
      for (std::size_t k = 0; k < kElements; ++k)
        product += static_cast<double>(first[k]) * static_cast<double>(other[k]);
      EXPECT_LT(std::abs(product), 5 * std::sqrt(static_cast<double>(kElements)));
    }
  });
}

TEST_P(RandomSignMean, WhatIsNotFiniteRests) {
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make(nodes, device);
    std::vector<float> values(kElements, 0.5F);
    values[70] = std::numeric_limits<float>::quiet_NaN();
    mean->reduce(values);
    EXPECT_TRUE(all_finite(values));
    EXPECT_TRUE(same_on_all(world, values));
    EXPECT_EQ(values[70], 0);
    EXPECT_NE(moments(values).variance, 0);
  });
}

TEST_P(RandomSignMean, AgreesBitForBitWithPlainLoops) {
  if (!setting().flat()) GTEST_SKIP() << "the plain loops are of flat ranks";
  run([](Transport& world, const Nodes& nodes) {
    for (const std::size_t elements : {std::size_t{1}, std::size_t{65}, std::size_t{20011}}) {
      HostDevice device(1);
      const auto config = setting().config(elements);
      const auto mean = make_mean(config, nodes, device);
      const RandomSignSimulation simulation(setting().ranks, config);
      for (int exchange = 0; exchange < 3; ++exchange) {
        auto all = values_of_all(setting().ranks, exchange, elements);
        std::vector<std::vector<bool>> active(all.size());
        for (std::size_t r = 0; r < all.size(); ++r)
          for (std::size_t w = 0; w * 64 < elements; ++w) {
            active[r].push_back((w + r) % 3 != 0);
            if (active[r][w]) continue;
            for (std::size_t k = w * 64; k < std::min(elements, w * 64 + 64); ++k) all[r][k] = 0;
          }
        auto values = all[static_cast<std::size_t>(world.rank())];
        mean->reduce(values);
        const auto wanted = simulation.exchange(all, active, static_cast<std::uint32_t>(exchange));
        ASSERT_EQ(first_difference(values, wanted), "") << elements << ", exchange " << exchange;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, RandomSignMean, ::testing::ValuesIn(settings(random_sorts())),
                         name_of);

}  // namespace
}  // namespace laconic::testing
