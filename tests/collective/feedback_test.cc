#include <gtest/gtest.h>

#include "laconic/device/host.h"
#include "tests/support/mean_simulation.h"
#include "tests/support/means.h"

namespace laconic::testing {
namespace {

// Every block length with both norms.
std::vector<Sort> coding_sorts() {
  std::vector<Sort> all;
  for (const std::size_t block : {4096, 256, 0, 8192})
    for (const auto norm : {kernels::Norm::kL2, kernels::Norm::kL1})
      all.push_back(one_bit(block, norm));
  for (const auto& sorts : {integer_sorts(), mixed_sorts()})
    for (const Sort& more : sorts) all.push_back(more);
  all.push_back(
      {"one_bit_ema", {.codec = "sign", .feedback = Feedback::kEma, .feedback_reset = 5}});
  return all;
}

std::vector<Setting> coding_settings(const std::vector<Sort>& sorts) {
  auto all = settings(sorts);
  std::erase_if(all, [](const Setting& setting) { return !setting.codes(); });
  return all;
}

class CodedMean : public MeanTest {
 protected:
  static MeanSimulation simulation(std::size_t elements) {
    return {setting().nodes(), setting().per_node, setting().config(elements)};
  }
  static bool full() { return setting().sort.config.feedback == Feedback::kFull; }
};

void expect_state(std::vector<State> state, const MeanSimulation& simulation,
                  const Setting& setting, int node) {
  const Feedback feedback = setting.sort.config.feedback;
  if (feedback == Feedback::kNone) {
    EXPECT_TRUE(state.empty());
    return;
  }
  if (feedback == Feedback::kEma) {
    EXPECT_EQ(state[0].name, "feedback_exchanges");
    EXPECT_EQ(state[0].spread, Spread::kScalar);
    state.erase(state.begin());
  }
  ASSERT_EQ(state.size(), setting.sort.exact_down() ? 1 : 2);
  EXPECT_EQ(state[0].name, "worker_residual");
  EXPECT_EQ(state[0].spread, Spread::kMean);
  const auto part = [](const std::vector<float>& of, const State& from) {
    return std::span(of).subspan(from.begin, from.values.size());
  };
  EXPECT_EQ(first_difference(state[0].values, part(simulation.worker(node), state[0])), "");
  if (setting.sort.exact_down()) return;
  EXPECT_EQ(state[1].name, "server_residual");
  EXPECT_EQ(state[1].spread, Spread::kOwned);
  EXPECT_EQ(first_difference(state[1].values, part(simulation.server(), state[1])), "");
}

TEST_P(CodedMean, AgreesBitForBitWithPlainLoops) {
  constexpr int kExchanges = 20;
  for (const std::size_t elements : {std::size_t{1}, std::size_t{257}, std::size_t{17011}}) {
    const auto input = [elements](int rank, int exchange) {
      auto values = values_of(rank, exchange, elements);
      if (exchange % 3 == 0) values[0] = -0.0F;
      return values;
    };
    auto simulated = simulation(elements);
    std::vector<std::vector<float>> wanted;
    for (int exchange = 0; exchange < kExchanges; ++exchange) {
      std::vector<std::vector<float>> all;
      for (int r = 0; r < setting().ranks; ++r) all.push_back(input(r, exchange));
      wanted.push_back(simulated.exchange(all));
    }
    run([&](Transport& world, const Nodes& nodes) {
      HostDevice device(1);
      const auto mean = make_mean(setting().config(elements), nodes, device);
      for (std::size_t exchange = 0; exchange < wanted.size(); ++exchange) {
        auto values = input(world.rank(), static_cast<int>(exchange));
        mean->reduce(values);
        ASSERT_EQ(first_difference(values, wanted[exchange]), "") << "exchange " << exchange;
      }
      expect_state(mean->state(), simulated, setting(), nodes.node);
    });
  }
}

TEST_P(CodedMean, DeadElementsTakeNoPart) {
  static constexpr std::size_t kElements = 20011;
  std::vector<float> live(kElements, 1.0F);
  for (std::size_t k = 0; k < kElements; ++k)
    if (k % 3 == 1 || (k > 256 && k < 10000)) live[k] = k % 2 == 0 ? 0.0F : -0.0F;
  auto simulated = simulation(kElements);
  std::vector<std::vector<float>> wanted;
  for (int exchange = 0; exchange < 5; ++exchange)
    wanted.push_back(simulated.exchange(values_of_all(setting().ranks, exchange, kElements), live));
  run([&](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make_mean(setting().config(kElements), nodes, device);
    for (std::size_t exchange = 0; exchange < wanted.size(); ++exchange) {
      auto values = values_of(world.rank(), static_cast<int>(exchange), kElements);
      std::vector<float> result(kElements);
      mean->exchange(
          [&](Tile& tile) {
            tile.values = values.data() + tile.begin;
            return true;
          },
          [&](std::size_t begin, std::span<const float> part) {
            std::copy(part.begin(), part.end(),
                      result.begin() + static_cast<std::ptrdiff_t>(begin));
          },
          {.live = live});
      ASSERT_EQ(first_difference(result, wanted[exchange]), "") << "exchange " << exchange;
    }
    expect_state(mean->state(), simulated, setting(), nodes.node);
    for (const State& state : mean->state())
      for (std::size_t k = 0; k < state.values.size(); ++k)
        ASSERT_TRUE(live[state.begin + k] != 0 || state.values[k] == 0) << state.begin + k;
  });
}

// One exchange in which the caller keeps the residual.
std::vector<float> exchange_pending(Mean& mean, const std::vector<float>& values,
                                    const std::vector<float>& pending) {
  std::vector<float> result(values.size());
  mean.exchange(
      [&](Tile& tile) {
        for (std::size_t k = 0; k < tile.count; ++k)
          tile.values[k] = values[tile.begin + k] + pending[tile.begin + k];
        return true;
      },
      [&](std::size_t begin, std::span<const float> part) {
        std::copy(part.begin(), part.end(), result.begin() + static_cast<std::ptrdiff_t>(begin));
      },
      {});
  return result;
}

// What one exchange gives, and what each rank's pending holds after it.
struct PendingStep {
  std::vector<float> mean;
  std::vector<std::vector<float>> pending;
};

std::vector<PendingStep> simulate_pending(MeanSimulation simulated, const Setting& setting,
                                          std::size_t elements, int exchanges) {
  const auto per_node = static_cast<float>(setting.per_node);
  std::vector<std::vector<float>> pending(static_cast<std::size_t>(setting.ranks),
                                          std::vector<float>(elements));
  std::vector<PendingStep> steps;
  for (int exchange = 0; exchange < exchanges; ++exchange) {
    auto all = values_of_all(setting.ranks, exchange, elements);
    for (std::size_t r = 0; r < all.size(); ++r)
      for (std::size_t k = 0; k < elements; ++k) all[r][k] = all[r][k] + pending[r][k];
    for (int node = 0; node < setting.nodes(); ++node)
      std::fill(simulated.worker(node).begin(), simulated.worker(node).end(), 0.0F);
    auto mean = simulated.exchange(all);
    for (int r = 0; r < setting.ranks; ++r) {
      const auto own = simulated.shard(r % setting.per_node);
      auto& mine = pending[static_cast<std::size_t>(r)];
      std::fill(mine.begin(), mine.end(), 0.0F);
      for (std::size_t k = own.begin; k < own.begin + own.count; ++k)
        mine[k] = simulated.worker(r / setting.per_node)[k] * per_node;
    }
    steps.push_back({std::move(mean), pending});
  }
  return steps;
}

TEST_P(CodedMean, PendingTakesTheResidualInItsPlace) {
  if (!full()) GTEST_SKIP() << "full feedback only";
  static constexpr std::size_t kElements = 20011;
  const auto wanted = simulate_pending(simulation(kElements), setting(), kElements, 4);
  run([&](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    std::vector<float> pending(kElements);
    auto config = setting().config(kElements);
    config.pending = pending;
    const auto mean = make_mean(config, nodes, device);
    EXPECT_EQ(mean->state().size(), setting().sort.exact_down() ? 0 : 1)
        << "the caller has the worker residual";
    for (std::size_t exchange = 0; exchange < wanted.size(); ++exchange) {
      const auto values = values_of(world.rank(), static_cast<int>(exchange), kElements);
      const auto result = exchange_pending(*mean, values, pending);
      ASSERT_EQ(first_difference(result, wanted[exchange].mean), "") << "exchange " << exchange;
      ASSERT_EQ(first_difference(pending,
                                 wanted[exchange].pending[static_cast<std::size_t>(world.rank())]),
                "")
          << "pending, exchange " << exchange;
    }
  });
}

TEST_P(CodedMean, PendingEqualsTheOwnResidualWhenFlat) {
  if (!full()) GTEST_SKIP() << "full feedback only";
  if (!setting().flat()) GTEST_SKIP() << "in a hierarchy pending is rounded before phase A";
  static constexpr std::size_t kElements = 10007;
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    std::vector<float> pending(kElements);
    auto config = setting().config(kElements);
    const auto own = make_mean(config, nodes, device);
    config.pending = pending;
    const auto mean = make_mean(config, nodes, device);
    for (int exchange = 0; exchange < 5; ++exchange) {
      auto values = values_of(world.rank(), exchange, kElements);
      const auto result = exchange_pending(*mean, values, pending);
      own->reduce(values);
      ASSERT_EQ(first_difference(result, values), "") << "exchange " << exchange;
    }
    EXPECT_EQ(first_difference(pending, own->state()[0].values), "");
  });
}

// Σ of the inputs' mean = Σ of outputs + mean worker residual + server residual, element by
// element.
TEST_P(CodedMean, NothingIsLostOverTime) {
  if (!full()) GTEST_SKIP() << "full feedback only";
  static constexpr std::size_t kElements = 5003;
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make_mean(setting().config(kElements), nodes, device);
    std::vector<double> balance(kElements);  // of this rank; the ranks' sum is to be 0
    for (int exchange = 0; exchange < 50; ++exchange) {
      auto values = values_of(world.rank(), exchange, kElements);
      for (std::size_t k = 0; k < kElements; ++k)
        balance[k] += static_cast<double>(values[k]) / setting().ranks;
      mean->reduce(values);
      if (world.rank() == 0)
        for (std::size_t k = 0; k < kElements; ++k) balance[k] -= static_cast<double>(values[k]);
    }
    for (const State& state : mean->state()) {
      const double share = state.spread == Spread::kMean ? 1.0 / setting().nodes() : 1.0;
      for (std::size_t k = 0; k < state.values.size(); ++k)
        balance[state.begin + k] -= share * static_cast<double>(state.values[k]);
    }
    std::vector<double> all(kElements * static_cast<std::size_t>(world.size()));
    world.all_gather(std::as_bytes(std::span(balance)), std::as_writable_bytes(std::span(all)));
    for (std::size_t k = 0; k < kElements; ++k) {
      double sum = 0;
      for (std::size_t at = k; at < all.size(); at += kElements) sum += all[at];
      ASSERT_NEAR(sum, 0, 1e-3) << k;
    }
  });
}

TEST_P(CodedMean, TheResidualRatioIsThatOfTheWorker) {
  if (!full() || !setting().sort.one_bit()) GTEST_SKIP() << "the numbers are those of signs";
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const std::size_t elements = 64 * static_cast<std::size_t>(world.size());
    const auto mean = make_mean(setting().config(elements), nodes, device);
    EXPECT_EQ(mean->residual_ratio(), 0);
    std::vector<float> values(elements, 1.0F);
    mean->reduce(values);
    EXPECT_EQ(mean->residual_ratio(), 0) << "one magnitude is said in full";
    for (std::size_t k = 0; k < elements; ++k) values[k] = k % 2 == 0 ? 3.0F : -1.0F;
    mean->reduce(values);
    // Scale 2 with L1, so 1 is left of each; sqrt(5) with L2.
    const bool l2 = setting().sort.config.scale_norm == kernels::Norm::kL2;
    const double wanted = l2 ? std::sqrt((10 - 4 * std::sqrt(5.0)) / 5) : 0.5;
    // One block in 16 is looked at, the vector's first among them.
    if (nodes.local == 0) {
      EXPECT_NEAR(mean->residual_ratio(), wanted, 1e-5);
    }
  });
}

TEST_P(CodedMean, ErrorFeedbackRecoversTheMeanOverTime) {
  if (setting().sort.config.scale_norm == kernels::Norm::kL1)
    GTEST_SKIP() << "with L1 the residual of a steady signal keeps growing";
  if (!full()) GTEST_SKIP() << "full feedback only";
  static constexpr std::size_t kElements = 1000;
  static constexpr int kExchanges = 200;
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make_mean(setting().config(kElements), nodes, device);
    std::vector<double> sum(kElements), exact(kElements);
    for (const auto& one : values_of_all(setting().ranks, 0, kElements))
      for (std::size_t k = 0; k < kElements; ++k)
        exact[k] += static_cast<double>(one[k]) / setting().ranks;
    double first = 0, last = 0;
    for (int exchange = 1; exchange <= kExchanges; ++exchange) {
      auto values = values_of(world.rank(), 0, kElements);
      mean->reduce(values);
      double error = 0;
      for (std::size_t k = 0; k < kElements; ++k) {
        sum[k] += static_cast<double>(values[k]);
        error += std::abs(sum[k] / exchange - exact[k]) / kElements;
      }
      if (exchange == 1) first = error;
      last = error;
    }
    EXPECT_GT(first, setting().sort.one_bit() && setting().sort.one_codec() ? 0.1 : 1e-4);
    EXPECT_LT(last, 0.05 * first);
  });
}

TEST_P(CodedMean, WithoutFeedbackEveryExchangeIsAsTheFirst) {
  static constexpr std::size_t kElements = 20011;
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(2);
    MeanConfig config = setting().config(kElements);
    config.feedback = Feedback::kFull;
    const auto first = make_mean(config, nodes, device);
    config.feedback = Feedback::kNone;
    const auto mean = make_mean(config, nodes, device);
    EXPECT_TRUE(mean->state().empty());
    auto expected = values_of(world.rank(), 0, kElements);
    first->reduce(expected);
    for (int exchange = 0; exchange < 3; ++exchange) {
      auto values = values_of(world.rank(), 0, kElements);
      mean->reduce(values);
      EXPECT_EQ(hash_of(values), hash_of(expected)) << exchange;
      EXPECT_EQ(mean->residual_ratio(), 0);
    }
  });
}

// The count of exchanges is state: a mean that is given another's state goes on as that one.
TEST_P(CodedMean, StateIsAllThatAMeanRemembers) {
  static constexpr std::size_t kElements = 5003;
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make_mean(setting().config(kElements), nodes, device);
    const auto other = make_mean(setting().config(kElements), nodes, device);
    for (int exchange = 0; exchange < 11; ++exchange) {
      auto values = values_of(world.rank(), exchange, kElements);
      mean->reduce(values);
    }
    const auto from = mean->state(), to = other->state();
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::ranges::copy(from[i].values, to[i].values.begin());
      std::ranges::copy(from[i].scalars, to[i].scalars.begin());
    }
    for (int exchange = 11; exchange < 24; ++exchange) {
      auto values = values_of(world.rank(), exchange, kElements), same = values;
      mean->reduce(values);
      other->reduce(same);
      ASSERT_EQ(first_difference(values, same), "") << "exchange " << exchange;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, CodedMean, ::testing::ValuesIn(coding_settings(coding_sorts())),
                         name_of);

class CodedMeanOfOneNode : public ::testing::TestWithParam<int> {};

TEST_P(CodedMeanOfOneNode, IsExactAndSaysSo) {
  if (GetParam() == 1) GTEST_SKIP() << "one rank codes, whatever it is told";
  run_ranks(GetParam(), [](Transport& world) {
    static constexpr std::size_t kElements = 10007;
    const Nodes nodes = make_nodes(world, world.size());
    HostDevice device(1);
    std::vector<float> pending(kElements, 1.0F);
    const auto mean = make_mean({.elements = kElements, .pending = pending}, nodes, device);
    const auto dense = make_mean({.codec = "fp32", .elements = kElements}, nodes, device);
    EXPECT_EQ(mean->describe(), dense->describe());
    auto values = values_of(world.rank(), 0, kElements), exact = values;
    mean->reduce(values);
    dense->reduce(exact);
    EXPECT_EQ(first_difference(values, exact), "");
    EXPECT_EQ(pending, std::vector<float>(kElements, 0.0F)) << "nothing is left over";
  });
}

INSTANTIATE_TEST_SUITE_P(All, CodedMeanOfOneNode, ::testing::ValuesIn(rank_counts()));

}  // namespace
}  // namespace laconic::testing
