#include <gtest/gtest.h>

#include "laconic/device/host.h"
#include "laconic/kernels/reference.h"
#include "tests/support/means.h"

namespace laconic::testing {
namespace {

namespace reference = kernels::reference;

class DenseMean : public MeanTest {
 protected:
  static constexpr std::size_t kElements = 30011;

  static std::vector<float> reduce(Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    auto values = values_of(world.rank(), 0, kElements);
    make_mean(setting().config(kElements), nodes, device)->reduce(values);
    return values;
  }
};

TEST_P(DenseMean, IsTheSumInRankOrderOverTheRanks) {
  run([](Transport& world, const Nodes& nodes) {
    const auto all = values_of_all(setting().ranks, 0, kElements);
    const auto factor = static_cast<float>(1.0 / setting().ranks);
    const auto per_node = static_cast<std::size_t>(setting().per_node);
    const auto rounded = [&](float value, const std::string& codec) {
      std::uint16_t half;
      reference::to_bf16(&value, 1, &half);
      if (codec == "bf16") reference::from_bf16(&half, 1, &value);
      return value;
    };
    std::vector<float> expected(kElements);
    for (std::size_t k = 0; k < kElements; ++k) {
      float sum = 0;
      for (std::size_t first = 0; first < all.size(); first += per_node) {
        float of_node = all[first][k];
        for (std::size_t l = 1; l < per_node; ++l) of_node += all[first + l][k];
        const float sent = rounded(of_node, setting().sort.config.codec);
        sum = first == 0 ? sent : sum + sent;
      }
      expected[k] = rounded(sum * factor, setting().sort.down());
    }
    EXPECT_EQ(first_difference(reduce(world, nodes), expected), "");
  });
}

TEST_P(DenseMean, SpreadsWhatIsNotFiniteAndKeepsTheRest) {
  run([](Transport& world, const Nodes& nodes) {
    HostDevice device(1);
    const auto mean = make_mean(setting().config(kElements), nodes, device);
    auto good = values_of(world.rank(), 0, kElements), bad = good;
    if (world.rank() == 0) bad[5000] = std::numeric_limits<float>::quiet_NaN();
    mean->reduce(good);
    mean->reduce(bad);
    EXPECT_TRUE(std::isnan(bad[5000]));
    bad[5000] = good[5000];
    EXPECT_EQ(first_difference(bad, good), "");
    EXPECT_EQ(mean->bad_blocks(), 0);
  });
}

// Several slices and a rest where the values are replaced, and the same bits where they are not.
TEST_P(DenseMean, IsTheSameInPlaceAndBeside) {
  run([](Transport& world, const Nodes& nodes) {
    constexpr std::size_t kLong = (std::size_t{5} << 20) + 77;
    HostDevice device(2);
    const auto mean = make_mean(setting().config(kLong), nodes, device);
    auto values = values_of(world.rank(), 0, kLong);
    std::vector<float> beside(kLong);
    mean->exchange(Values{values.data()}, Store{beside.data()}, {});
    EXPECT_EQ(first_difference(values, values_of(world.rank(), 0, kLong)), "");
    mean->reduce(values);
    EXPECT_EQ(first_difference(values, beside), "");
  });
}

TEST_P(DenseMean, HasNoState) {
  run([](Transport&, const Nodes& nodes) {
    HostDevice device(1);
    EXPECT_TRUE(make_mean(setting().config(100), nodes, device)->state().empty());
  });
}

std::vector<Sort> dense_sorts() {
  auto all = all_sorts();
  std::erase_if(all, [](const Sort& sort) { return !sort.exact(); });
  all.push_back({"fp32_bf16", {.codec = "fp32", .codec_down = "bf16"}});
  all.push_back({"bf16_fp32", {.codec = "bf16", .codec_down = "fp32"}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, DenseMean, ::testing::ValuesIn(settings(dense_sorts())), name_of);

}  // namespace
}  // namespace laconic::testing
