#include "laconic/kernels/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "laconic/kernels/reference.h"
#include "tests/support/cases.h"

namespace laconic::kernels {
namespace {

using testing::Array;
using testing::Case;
using testing::expect_same;
using testing::for_each_case;
using testing::for_each_size;
using testing::IntegersArray;

constexpr std::size_t kSlots[] = {1, 2, 77, 128, 4095, 4096};

float largest(const std::vector<float>& p, const std::vector<float>* live = nullptr) {
  Lanes lanes;
  std::vector<float> same(p.size());
  reference::measure_largest(p.data(), nullptr, live ? live->data() : nullptr, p.size(),
                             same.data(), lanes);
  return reference::largest_of(lanes);
}

// The places of some values of the case.
IntegersArray places(Case& one, std::size_t slots, float scale) {
  const auto p = one.finite(), live = one.live();
  std::vector<float> e(one.count());
  auto bytes = one.bytes(top_k_bytes(slots));
  reference::to_top_k(p.values.data(), live.values.data(), one.count(), slots,
                      largest(p.values, &live.values), 1.0F, e.data(), bytes.values.data());
  return {scale, std::move(bytes)};
}

class TopKKernels : public testing::OnEveryTarget {};
LACONIC_ON_EVERY_TARGET(TopKKernels);

TEST_P(TopKKernels, ToTopKEqualsTheReference) {
  for_each_case(
      [](Case& one) {
        const auto p = one.finite(), live = one.live(), e = one.floats();
        for (const std::size_t slots : kSlots) {
          const auto places = one.bytes(top_k_bytes(slots));
          const float of_all = largest(p.values), of_live = largest(p.values, &live.values);
          expect_same(to_top_k, reference::to_top_k, p, nullptr, one.count(), slots, of_all, 1.0F,
                      e, places);
          expect_same(to_top_k, reference::to_top_k, p, live, one.count(), slots, of_live, 3.3F, e,
                      places);
          expect_same(to_top_k, reference::to_top_k, p, live, one.count(), slots, of_live, 0.5F, p,
                      places);
        }
      },
      kTopKBlock);
}

// Few different magnitudes, so that most are ties; and blocks that are mostly or all 0.
TEST_P(TopKKernels, TiesGoToTheLowerIndex) {
  std::mt19937 random(7);
  for (const unsigned different : {1U, 2U, 5U, 300U})
    for (const unsigned zeros : {0U, 2U, 50U, 4000U}) {
      std::vector<float> p(kTopKBlock);
      for (float& value : p)
        value = random() % (zeros + 1) != 0 ? (random() % 2 == 0 ? 0.0F : -0.0F)
                                            : std::ldexp(random() % 2 == 0 ? 1.0F : -1.0F,
                                                         -static_cast<int>(random() % different));
      const Array<float> values{p}, e{p};
      for (const std::size_t slots : kSlots) {
        const Array<std::uint8_t> places{std::vector<std::uint8_t>(top_k_bytes(slots))};
        expect_same(to_top_k, reference::to_top_k, values, nullptr, kTopKBlock, slots, largest(p),
                    1.0F, e, places);
      }
    }
}

TEST_P(TopKKernels, SumTopKEqualsTheReference) {
  for_each_case(
      [](Case& one) {
        const auto e = one.floats(), live = one.live(), q = one.floats();
        const Array<Lanes> lanes{{Lanes{}}};
        for (const std::size_t slots : {std::size_t{5}, std::size_t{128}}) {
          std::vector<IntegersArray> from;
          for (int ranks = 1; ranks <= 3; ++ranks) {
            from.push_back(places(one, slots, 0.25F * static_cast<float>(ranks)));
            const float factor = 1.0F / static_cast<float>(ranks);
            expect_same(sum_top_k, reference::sum_top_k, from, ranks, slots, factor, e, nullptr, 0,
                        one.count(), q, lanes);
            expect_same(sum_top_k, reference::sum_top_k, from, ranks, slots, factor, nullptr, live,
                        0, one.count(), q, lanes);
            expect_same(sum_top_k, reference::sum_top_k, from, ranks, slots, factor, e, live,
                        kTopKBlock - one.count(), one.count(), q, lanes);
          }
        }
      },
      kTopKBlock);
}

TEST_P(TopKKernels, FromTopKEqualsTheReference) {
  for_each_size(
      [](Case& one) {
        const auto out = one.floats();
        for (const std::size_t slots : kSlots) {
          const auto from = places(one, slots, 0.3F);
          const std::size_t half = one.count() / 128 * 64;
          expect_same(from_top_k, reference::from_top_k, from, slots, 0, one.count(), out);
          expect_same(from_top_k, reference::from_top_k, from, slots, half, one.count() - half,
                      out);
        }
      },
      kTopKBlock);
}

TEST_P(TopKKernels, PlacesLieLowBitsFirstInAscendingOrder) {
  std::vector<float> p(kTopKBlock), e(kTopKBlock);
  p[0x123] = 7;
  p[0x456] = -3;
  p[0xFED] = 2.5F;
  p[0xFEE] = -2.5F;
  std::uint8_t places[6];
  to_top_k(p.data(), nullptr, p.size(), 3, 7.0F, 1.0F, e.data(), places);
  EXPECT_EQ(places[0], 0x23);
  EXPECT_EQ(places[1], 0x61);
  EXPECT_EQ(places[2], 0x45);
  EXPECT_EQ(places[3], 0xED);
  EXPECT_EQ(places[4], 0x7F);
  EXPECT_EQ(places[5], 0x2D);  // -3, then 2.5 rounded to even
  EXPECT_EQ(e[0xFED], 0.5F);
  EXPECT_EQ(e[0xFEE], -2.5F) << "the lower index of a tie";
}

TEST_P(TopKKernels, FewLiveElementsLeavePlacesFree) {
  std::vector<float> p(200, 1.0F), live(200), e(200, 9.0F);
  live[3] = live[100] = 1;
  std::uint8_t places[8];
  to_top_k(p.data(), live.data(), p.size(), 4, 1.0F, 1.0F, e.data(), places);
  EXPECT_EQ(index_at(places, 0), 3);
  EXPECT_EQ(index_at(places, 1), 100);
  EXPECT_TRUE(is_free(places, 2) && is_free(places, 3));
  EXPECT_EQ(code_at(places, 4, 1), 7);
  EXPECT_EQ(code_at(places, 4, 2), 0);
  EXPECT_EQ(e[4], 0) << "the dead have no residual";
}

}  // namespace
}  // namespace laconic::kernels
