#include "laconic/kernels/integer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

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

constexpr int kBits[] = {8, 4, 2};
constexpr float kScales[] = {0.25F, 0.0F, 1e-37F, 2.5e36F, 0.013F};

std::size_t bytes_of(const Case& one, int bits) {
  return one.words() * 8 * static_cast<std::size_t>(bits);
}

class IntegerKernels : public testing::OnEveryTarget {};
LACONIC_ON_EVERY_TARGET(IntegerKernels);

TEST_P(IntegerKernels, MeasureLargestEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto a = one.floats(), e = one.floats(), live = one.live(), p = one.floats();
    Array<Lanes> lanes{{Lanes{}}};
    lanes.values[0].lane[3] = 0.5F;
    const auto go = [&](const auto& residual, const auto& mask) {
      expect_same(measure_largest, reference::measure_largest, a, residual, mask, one.count(), p,
                  lanes);
      expect_same(measure_largest, reference::measure_largest, a, residual, mask, one.count(), a,
                  lanes);
    };
    go(e, live);
    go(e, nullptr);
    go(nullptr, live);
    go(nullptr, nullptr);
  });
}

TEST_P(IntegerKernels, LargestOfEqualsTheReference) {
  for_each_case([](Case& one) {
    Lanes lanes;
    const auto values = one.positive().values;
    for (std::size_t k = 0; k < std::min<std::size_t>(16, values.size()); ++k)
      lanes.lane[k] = values[k];
    expect_same(largest_of, reference::largest_of, Array<Lanes>{{lanes}});
  });
}

TEST_P(IntegerKernels, ToIntegersEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto p = one.finite(), live = one.live(), e = one.floats();
    for (const int bits : kBits) {
      const auto codes = one.bytes(bytes_of(one, bits));
      for (const float scale : kScales) {
        expect_same(to_integers, reference::to_integers, p, nullptr, one.count(), bits, scale, 1.0F,
                    e, codes);
        expect_same(to_integers, reference::to_integers, p, live, one.count(), bits, scale, 3.3F, e,
                    codes);
      }
      expect_same(to_integers, reference::to_integers, p, nullptr, one.count(), bits, 0.3F, 1.0F, p,
                  codes);
      expect_same(to_integers, reference::to_integers, p, live, one.count(), bits, 0.3F, 1.0F, p,
                  codes);
    }
  });
}

std::size_t encode_one(const float* a, const float* e, const float* live, std::size_t count,
                       std::size_t block, int bits, float most, float gain, float* left,
                       float* scales, std::uint8_t* codes) noexcept {
  return encode_integers(a, e, live, count, block, bits, most, gain, left, scales, codes);
}
std::size_t encode_two(const float* a, const float* b, const float* e, std::size_t count,
                       std::size_t block, int bits, float gain, float* left, float* scales,
                       std::uint8_t* codes) noexcept {
  return encode_integers({a, 0.9F, b, -0.1F, Bounded::kSum}, e, nullptr, count, block, bits, 1e36F,
                         gain, left, scales, codes);
}
// What is out of bounds ends a run as what is not finite does.
std::size_t encoded_two(const float* a, const float* b, const float* e, std::size_t count,
                        std::size_t block, int bits, float gain, float* left, float* scales,
                        std::uint8_t* codes) noexcept {
  std::vector<float> sum(count);
  reference::momentum({0.9F, -0.1F, 0, 0, 0, 0, 0, 0}, b, a, sum.data(), count);
  for (float& one : sum)
    if (!is_finite(one)) one = HUGE_VALF;
  return reference::encode_integers(sum.data(), e, nullptr, count, block, bits, 1e36F, gain, left,
                                    scales, codes);
}

TEST_P(IntegerKernels, SumsOfTwoArraysNeedNoMemory) {
  for_each_case([](Case& one) {
    for (const int bits : kBits) {
      const auto codes = one.bytes(bytes_of(one, bits));
      for (const std::size_t block : {64UL, 256UL, 1152UL}) {
        const auto scales = one.array(std::vector<float>(one.count() / block + 1));
        for (const auto& a : {one.finite(), one.floats()}) {
          const auto b = one.finite(), e = one.finite();
          for (const float gain : {1.0F, 3.3F})
            expect_same(encode_two, encoded_two, a, b, e, one.count(), block, bits, gain, e, scales,
                        codes);
        }
      }
    }
  });
}

TEST_P(IntegerKernels, EncodeIntegersEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto live = one.live();
    for (const int bits : kBits) {
      const auto codes = one.bytes(bytes_of(one, bits));
      for (const std::size_t block : {64UL, 256UL, 1152UL}) {
        const auto scales = one.array(std::vector<float>(one.count() / block + 1));
        // Blocks that end a run: something not finite, or too large.
        for (const auto& a : {one.finite(), one.floats()}) {
          const auto e = one.finite();
          for (const float most : {1e36F, 1e-3F}) {
            expect_same(encode_one, reference::encode_integers, a, e, nullptr, one.count(), block,
                        bits, most, 1.0F, e, scales, codes);
            expect_same(encode_one, reference::encode_integers, a, e, live, one.count(), block,
                        bits, most, 1.0F, a, scales, codes);
          }
          expect_same(encode_one, reference::encode_integers, a, e, nullptr, one.count(), block,
                      bits, 1e36F, 3.3F, e, scales, codes);
        }
      }
    }
  });
}

TEST_P(IntegerKernels, SumIntegersEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto e = one.floats(), live = one.live(), q = one.floats();
    const Array<Lanes> lanes{{Lanes{}}};
    for (const int bits : kBits) {
      std::vector<IntegersArray> from;
      for (int ranks = 1; ranks <= 4; ++ranks) {
        from.push_back({kScales[static_cast<std::size_t>(ranks) % std::size(kScales)],
                        one.bytes(bytes_of(one, bits))});
        const float factor = 1.0F / static_cast<float>(ranks);
        expect_same(sum_integers, reference::sum_integers, from, ranks, bits, factor, e, nullptr,
                    one.count(), q, lanes);
        expect_same(sum_integers, reference::sum_integers, from, ranks, bits, factor, nullptr, live,
                    one.count(), q, lanes);
        expect_same(sum_integers, reference::sum_integers, from, ranks, bits, factor, e, live,
                    one.count(), e, lanes);
      }
    }
  });
}

TEST_P(IntegerKernels, FromIntegersEqualsTheReference) {
  for_each_size([](Case& one) {
    const auto out = one.floats();
    for (const int bits : kBits)
      for (const float scale : kScales)
        expect_same(from_integers, reference::from_integers,
                    IntegersArray{scale, one.bytes(bytes_of(one, bits))}, bits, one.count(), out);
  });
}

TEST_P(IntegerKernels, FieldsLieLowBitsFirstAndTiesGoToEven) {
  const float p[] = {7.0F, -7.0F, 0.5F, 1.5F, -2.5F, 100.0F};
  float e[6];
  std::uint8_t codes[32];
  to_integers(p, nullptr, 6, 4, 1.0F, 1.0F, e, codes);
  EXPECT_EQ(codes[0], 0x97);  // 7, -7
  EXPECT_EQ(codes[1], 0x20);  // 0, 2
  EXPECT_EQ(codes[2], 0x7E);  // -2, 7
  EXPECT_EQ(e[2], 0.5F);
  EXPECT_EQ(e[3], -0.5F);
  EXPECT_EQ(e[5], 93.0F);
}

TEST(IntegerScale, IsTheLargestOverTheLargestCodeOrZero) {
  EXPECT_EQ(integer_scale(127, 8), 1);
  EXPECT_EQ(integer_scale(7, 4), 1);
  EXPECT_EQ(integer_scale(3, 2), 3);
  EXPECT_EQ(integer_scale(0, 4), 0);
  EXPECT_EQ(integer_scale(1e-39F, 4), 0);  // 1/s overflows
  EXPECT_EQ(inverse_scale(0), 0);
}

}  // namespace
}  // namespace laconic::kernels
