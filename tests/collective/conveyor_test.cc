#include "laconic/collective/conveyor.h"

#include <gtest/gtest.h>

#include "laconic/device/host.h"
#include "tests/support/means.h"

namespace laconic::testing {
namespace {

// Vectors of several lengths, like buckets of a model: none, one slice, several.
constexpr std::size_t kLengths[] = {30011, 64, 700001, 0, 5000, 600001, 1};
constexpr int kExchanges = 3;

class Conveying : public MeanTest {
 protected:
  // What every vector's mean is in every exchange, with or without a conveyor.
  static std::vector<std::vector<float>> means_of(Transport& world, const Nodes& nodes,
                                                  Conveyor* conveyor) {
    HostDevice device(2);
    std::vector<std::unique_ptr<Mean>> means;
    for (const std::size_t elements : kLengths) {
      MeanConfig config = setting().config(elements);
      config.conveyor = conveyor;
      means.push_back(make_mean(config, nodes, device));
    }
    std::vector<std::vector<float>> all;
    for (int e = 0; e < kExchanges; ++e) {
      const std::size_t first = all.size();
      std::vector<std::vector<float>> given;
      for (const std::size_t elements : kLengths) {
        given.push_back(values_of(world.rank(), e, elements));
        all.emplace_back(elements);
      }
      if (conveyor) conveyor->linger(true);
      for (std::size_t i = 0; i < means.size(); ++i)
        means[i]->begin(Values{given[i].data(), true}, Store{all[first + i].data()},
                        {.step = static_cast<std::uint64_t>(e)});
      if (conveyor) conveyor->linger(false);
    }
    return all;
  }
};

TEST_P(Conveying, GivesTheBitsOfExchangesOneByOne) {
  run([](Transport& world, const Nodes& nodes) {
    const auto expected = means_of(world, nodes, nullptr);
    for (const std::size_t lag : {std::size_t{1}, Outbox::kLag}) {
      Conveyor conveyor(nodes, lag);
      const auto means = means_of(world, nodes, &conveyor);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(first_difference(means[i], expected[i]), "") << "vector " << i << ", lag " << lag;
    }
  });
}

TEST_P(Conveying, BeginsTheNextBeforeThisOneEnds) {
  if (!setting().exchanges()) GTEST_SKIP() << "nothing is sent";
  if (setting().sort.config.form == RandomForm::kSingleRound) GTEST_SKIP() << "ends by itself";
  run([](Transport& world, const Nodes& nodes) {
    constexpr float kUntouched = 77;
    HostDevice device(1);
    Conveyor conveyor(nodes, 1);
    MeanConfig config = setting().config(1000);
    config.conveyor = &conveyor;
    const auto one = make_mean(config, nodes, device), two = make_mean(config, nodes, device);
    const auto given = values_of(world.rank(), 0, 1000);
    std::vector<float> first(1000, kUntouched), second(1000, kUntouched);
    conveyor.linger(true);
    one->begin(Values{given.data(), true}, Store{first.data()}, {});
    two->begin(Values{given.data(), true}, Store{second.data()}, {});
    EXPECT_EQ(first[0], kUntouched);
    // Whoever must have its mean at once ends the others.
    auto in_place = given;
    two->exchange(Values{given.data(), true}, Store{second.data()}, {});
    EXPECT_NE(first[0], kUntouched);
    EXPECT_NE(second[0], kUntouched);
    one->begin(Values{given.data(), true}, Store{first.data()}, {});
    two->reduce(in_place);
    conveyor.linger(false);
  });
}

std::vector<Setting> some_settings() {
  auto all = settings({{"dense", {.codec = "fp32"}},
                       {"dense_bf16", {.codec = "bf16"}},
                       one_bit(4096, kernels::Norm::kL2),
                       {"int4", {.codec = "int4"}},
                       {"top_k", {.codec = "top-k"}},
                       random_sign("two_round", RandomForm::kTwoRound),
                       random_sign("single_round", RandomForm::kSingleRound),
                       {"vote", {.codec = "vote"}}});
  std::erase_if(all, [](const Setting& setting) { return setting.ranks == 1; });
  return all;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conveying);  // one rank exchanges nothing
INSTANTIATE_TEST_SUITE_P(All, Conveying, ::testing::ValuesIn(some_settings()), name_of);

}  // namespace
}  // namespace laconic::testing
