#include <gtest/gtest.h>

#include <limits>

#include "laconic/device/host.h"
#include "tests/support/means.h"

namespace laconic::testing {
namespace {

constexpr std::size_t kElements = 20011;

// Small whole numbers, 0 often; words of 64 that are 0 throughout on one rank, on some, on all.
std::vector<float> ballot(int rank, int exchange, std::size_t elements) {
  std::vector<float> values(elements);
  for (std::size_t k = 0; k < elements; ++k) {
    const std::size_t word = k / 64;
    if (word % 7 == 3 || (word + static_cast<std::size_t>(rank)) % 5 == 1) continue;
    values[k] = std::round(3 * value_of(rank, exchange, k));
    if (k % 11 == 4) values[k] = -0.0F;
  }
  return values;
}

// After the specification, in plain loops over flat ranks.
std::vector<float> outcome(const std::vector<std::vector<float>>& values, std::uint64_t step,
                           bool counts) {
  const std::size_t elements = values[0].size();
  std::vector<float> result(elements);
  for (std::size_t begin = 0; begin < elements; begin += 64) {
    const std::size_t end = std::min(elements, begin + 64);
    std::vector<const std::vector<float>*> voters;
    for (const auto& of_rank : values)
      if (std::any_of(of_rank.begin() + static_cast<std::ptrdiff_t>(begin),
                      of_rank.begin() + static_cast<std::ptrdiff_t>(end),
                      [](float x) { return x != 0; }))
        voters.push_back(&of_rank);
    for (std::size_t k = begin; k < end && !voters.empty(); ++k) {
      const bool tie = (k + step) % 2 == 0;
      int plus = 0;
      for (const auto* of_rank : voters)
        plus += (*of_rank)[k] > 0 || ((*of_rank)[k] == 0 && tie) ? 1 : 0;
      const int all = static_cast<int>(voters.size());
      if (counts)
        result[k] = static_cast<float>(2 * plus) / static_cast<float>(all) - 1.0F;
      else
        result[k] = 2 * plus > all || (2 * plus == all && tie) ? 1.0F : -1.0F;
    }
  }
  return result;
}

class Vote : public MeanTest {
 protected:
  static bool counts() { return setting().sort.config.form == RandomForm::kCount; }
};

// On nodes too: the vote is of all ranks, wherever they sit.
TEST_P(Vote, IsThatOfPlainLoopsBitForBitOnNodesToo) {
  run([](Transport& world, const Nodes& nodes) {
    for (const std::size_t elements : {std::size_t{1}, std::size_t{65}, kElements}) {
      HostDevice device(2);
      const auto mean = make_mean(setting().config(elements), nodes, device);
      for (int exchange = 0; exchange < 3; ++exchange) {
        std::vector<std::vector<float>> all;
        for (int r = 0; r < world.size(); ++r) all.push_back(ballot(r, exchange, elements));
        auto values = all[static_cast<std::size_t>(world.rank())];
        mean->reduce(values);
        const auto wanted = outcome(all, static_cast<std::uint64_t>(exchange), counts());
        ASSERT_EQ(first_difference(values, wanted), "") << elements << ", exchange " << exchange;
      }
    }
  });
}

TEST_P(Vote, UnanimityIsItsResult) {
  run([](Transport&, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make_mean(setting().config(kElements), nodes, device);
    auto values = values_of(0, 0, kElements);
    auto wanted = values;
    for (float& one : wanted) one = one > 0 ? 1.0F : -1.0F;
    mean->reduce(values);
    EXPECT_EQ(first_difference(values, wanted), "");
  });
}

TEST_P(Vote, WhatIsNotFiniteCarriesNoVote) {
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make_mean(setting().config(kElements), nodes, device);
    std::vector<float> values(kElements, world.rank() == 0 ? -1.0F : 1.0F);
    if (world.rank() == 0) values[70] = std::numeric_limits<float>::quiet_NaN();
    mean->reduce(values);
    EXPECT_TRUE(same_on_all(world, values));
    EXPECT_EQ(values[71], world.size() == 1 ? 0.0F : 1.0F);
  });
}

TEST_P(Vote, KeepsNoState) {
  run([](Transport&, const Nodes& nodes) {
    HostDevice device(1);
    EXPECT_TRUE(make_mean(setting().config(kElements), nodes, device)->state().empty());
  });
}

INSTANTIATE_TEST_SUITE_P(All, Vote, ::testing::ValuesIn(settings(vote_sorts())), name_of);

}  // namespace
}  // namespace laconic::testing
