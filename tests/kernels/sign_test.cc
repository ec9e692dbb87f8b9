#include "laconic/kernels/sign.h"

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
using testing::CodedArray;
using testing::expect_same;
using testing::for_each_case;
using testing::for_each_size;

constexpr Norm kNorms[] = {Norm::kL2, Norm::kL1};
constexpr float kScales[] = {0.25F,
                             0.0F,
                             1e-40F,
                             3e38F,
                             -1.5F,
                             std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()};

class SignKernels : public testing::OnEveryTarget {};
LACONIC_ON_EVERY_TARGET(SignKernels);

TEST_P(SignKernels, FoldEqualsTheReference) {
  for_each_case([](Case& one) {
    Lanes lanes;
    const auto values = one.floats().values;
    for (std::size_t k = 0; k < std::min<std::size_t>(16, values.size()); ++k)
      lanes.lane[k] = values[k];
    expect_same(fold, reference::fold, Array<Lanes>{{lanes}});
  });
}

TEST_P(SignKernels, ScaleOfEqualsTheReference) {
  for_each_case([](Case& one) {
    for (float sum : one.positive().values)
      for (Norm norm : kNorms) expect_same(scale_of, reference::scale_of, sum, one.count(), norm);
    for (Norm norm : kNorms)
      for (std::size_t count : {0UL, 1UL, 3UL, (1UL << 24) + 1, 1UL << 40})
        expect_same(scale_of, reference::scale_of, 3.7F, count, norm);
  });
}

TEST_P(SignKernels, MeasureEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto a = one.floats(), e = one.floats(), live = one.live(), p = one.floats();
    const auto lanes = one.lanes();
    for (Norm norm : kNorms) {
      expect_same(measure, reference::measure, a, e, live, one.count(), norm, p, lanes);
      expect_same(measure, reference::measure, a, e, nullptr, one.count(), norm, p, lanes);
      expect_same(measure, reference::measure, a, nullptr, live, one.count(), norm, p, lanes);
      expect_same(measure, reference::measure, a, nullptr, nullptr, one.count(), norm, p, lanes);
    }
  });
}

TEST_P(SignKernels, MeasureMayWriteOverItsInput) {
  for_each_case([](Case& one) {
    const auto a = one.floats(), e = one.floats(), live = one.live();
    const auto lanes = one.lanes();
    for (Norm norm : kNorms) {
      expect_same(measure, reference::measure, a, e, live, one.count(), norm, a, lanes);
      expect_same(measure, reference::measure, a, nullptr, nullptr, one.count(), norm, a, lanes);
    }
  });
}

TEST_P(SignKernels, ASumGoesOnOverCallsOfAMultipleOf16) {
  for_each_case([](Case& one) {
    const auto a = one.floats().values, e = one.floats().values;
    std::vector<float> p(a.size());
    for (Norm norm : kNorms) {
      Lanes whole, parts;
      reference::measure(a.data(), e.data(), nullptr, a.size(), norm, p.data(), whole);
      for (std::size_t k = 0; k < a.size(); k += 48)
        measure(a.data() + k, e.data() + k, nullptr, std::min<std::size_t>(48, a.size() - k), norm,
                p.data() + k, parts);
      EXPECT_TRUE(testing::same(whole, parts));
    }
  });
}

TEST_P(SignKernels, CodeEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto p = one.floats(), live = one.live(), e = one.floats();
    const auto bits = one.bits();
    for (float scale : kScales) {
      expect_same(code, reference::code, p, nullptr, one.count(), scale, 1.0F, e, bits);
      expect_same(code, reference::code, p, live, one.count(), scale, 1.0F, e, bits);
      expect_same(code, reference::code, p, live, one.count(), scale, 3.3F, e, bits);
    }
  });
}

TEST_P(SignKernels, CodeMayWriteOverItsInput) {
  for_each_case([](Case& one) {
    const auto p = one.floats(), live = one.live();
    const auto bits = one.bits();
    expect_same(code, reference::code, p, nullptr, one.count(), 0.3F, 1.0F, p, bits);
    expect_same(code, reference::code, p, live, one.count(), 0.3F, 4.0F, p, bits);
  });
}

// A run that ends early may have written bits after the blocks that it did.
std::size_t without_rest(std::size_t done, std::size_t count, std::uint8_t* bits) {
  std::fill(bits + done / 8, bits + (count + 63) / 64 * 8, std::uint8_t{0});
  return done;
}
std::size_t encode_one(const float* a, const float* e, const float* live, std::size_t count,
                       std::size_t block, Norm norm, float gain, float* left, float* scales,
                       std::uint8_t* bits) noexcept {
  const auto done = encode_signs(a, e, live, count, block, norm, gain, left, scales, bits);
  return done == count ? done : without_rest(done, count, bits);
}
std::size_t encoded_one(const float* a, const float* e, const float* live, std::size_t count,
                        std::size_t block, Norm norm, float gain, float* left, float* scales,
                        std::uint8_t* bits) noexcept {
  const auto done =
      reference::encode_signs(a, e, live, count, block, norm, gain, left, scales, bits);
  return done == count ? done : without_rest(done, count, bits);
}
std::size_t encode_two(const float* a, const float* b, const float* e, std::size_t count,
                       std::size_t block, Norm norm, float gain, float* left, float* scales,
                       std::uint8_t* bits) noexcept {
  const auto done = encode_signs({a, 0.9F, b, -0.1F, Bounded::kSum}, e, nullptr, count, block, norm,
                                 gain, left, scales, bits);
  return done == count ? done : without_rest(done, count, bits);
}
// What is out of bounds ends a run as what is not finite does.
std::size_t encoded_two(const float* a, const float* b, const float* e, std::size_t count,
                        std::size_t block, Norm norm, float gain, float* left, float* scales,
                        std::uint8_t* bits) noexcept {
  std::vector<float> sum(count);
  reference::momentum({0.9F, -0.1F, 0, 0, 0, 0, 0, 0}, b, a, sum.data(), count);
  for (float& one : sum)
    if (!is_finite(one)) one = HUGE_VALF;
  return encoded_one(sum.data(), e, nullptr, count, block, norm, gain, left, scales, bits);
}

TEST_P(SignKernels, EncodeSignsEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto live = one.live(), left = one.floats();
    const auto bits = one.bits();
    for (const std::size_t block : {64UL, 256UL, 1152UL, 4096UL}) {
      const auto scales = one.array(std::vector<float>(one.count() / block + 1));
      // Blocks that end a run: something not finite.
      for (const auto& a : {one.finite(), one.floats()}) {
        const auto e = one.finite();
        for (const Norm norm : kNorms) {
          const auto go = [&](const auto& mask, float gain, const auto& to) {
            expect_same(encode_one, encoded_one, a, e, mask, one.count(), block, norm, gain, to,
                        scales, bits);
          };
          go(nullptr, 1.0F, left);
          go(nullptr, 1.0F, e);
          go(nullptr, 3.3F, a);
          go(live, 1.0F, e);
          go(live, 3.3F, left);
        }
      }
    }
  });
}

TEST_P(SignKernels, SumsOfTwoArraysNeedNoMemory) {
  for_each_case([](Case& one) {
    const auto bits = one.bits();
    const auto left = one.floats();
    for (const std::size_t block : {64UL, 1152UL}) {
      const auto scales = one.array(std::vector<float>(one.count() / block + 1));
      for (const auto& a : {one.finite(), one.floats()}) {
        const auto b = one.finite(), e = one.finite();
        for (const Norm norm : kNorms)
          for (const float gain : {1.0F, 3.3F}) {
            expect_same(encode_two, encoded_two, a, b, e, one.count(), block, norm, gain, left,
                        scales, bits);
            expect_same(encode_two, encoded_two, a, b, e, one.count(), block, norm, gain, e, scales,
                        bits);
          }
      }
    }
  });
}

TEST_P(SignKernels, TermsOutOfTheirBoundAreFound) {
  constexpr float kMost = kLargestGradient;
  for (std::size_t count : {1UL, 15UL, 64UL, 1000UL})
    for (std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
      std::vector<float> a(count, 1.0F), b(count, 2.0F), e(count), left(count);
      std::vector<std::uint8_t> bits((count + 63) / 64 * 8);
      const auto holds = [&](Bounded what) {
        float scale;
        return encode_signs({a.data(), 1, b.data(), -1, what}, e.data(), nullptr, count, 1024,
                            Norm::kL1, 1, left.data(), &scale, bits.data()) == count;
      };
      b[at] = kMost;
      EXPECT_TRUE(holds(Bounded::kSecond)) << count;
      a[at] = -kMost;
      EXPECT_TRUE(holds(Bounded::kSecond)) << count;
      EXPECT_FALSE(holds(Bounded::kSum)) << count;
      for (float bad : {-2 * kMost, HUGE_VALF, std::nanf("")}) {
        b[at] = bad;
        EXPECT_FALSE(holds(Bounded::kSecond)) << count << ' ' << bad;
        a[at] = 1;
        EXPECT_FALSE(holds(Bounded::kSum)) << count << ' ' << bad;
      }
    }
}

TEST_P(SignKernels, ServeEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto e = one.floats(), live = one.live(), q = one.floats();
    const auto lanes = one.lanes();
    std::vector<CodedArray> coded;
    for (int codes = 1; codes <= 5; ++codes) {
      coded.push_back({one.count() % 2 == 0 ? 0.1F * static_cast<float>(codes)
                                            : kScales[codes % std::size(kScales)],
                       one.bits()});
      const float factor = 1.0F / static_cast<float>(codes);
      const Norm norm = kNorms[codes % 2];
      expect_same(serve, reference::serve, coded, codes, factor, e, nullptr, one.count(), norm, q,
                  lanes);
      expect_same(serve, reference::serve, coded, codes, factor, e, live, one.count(), norm, q,
                  lanes);
      expect_same(serve, reference::serve, coded, codes, factor, e, live, one.count(), norm, e,
                  lanes);
    }
  });
}

TEST_P(SignKernels, ServeEqualsTheReferenceWithManyRanks) {
  for_each_size([](Case& one) {
    const auto e = one.floats(), q = one.floats();
    std::vector<CodedArray> coded;
    for (int i = 0; i < 33; ++i) coded.push_back({0.1F + static_cast<float>(i), one.bits()});
    for (int codes : {7, 8, 9, 16, 33})
      expect_same(serve, reference::serve, coded, codes, 1.0F / static_cast<float>(codes), e,
                  nullptr, one.count(), Norm::kL2, q, one.lanes());
  });
}

TEST_P(SignKernels, DecodeEqualsTheReference) {
  for_each_size([](Case& one) {
    const auto bits = one.bits();
    const auto out = one.floats();
    for (float scale : kScales)
      expect_same(decode, reference::decode, CodedArray{scale, bits}, one.count(), out);
  });
}

TEST_P(SignKernels, CountLiveEqualsTheReference) {
  for_each_case([](Case& one) {
    expect_same(count_live, reference::count_live, one.live(), one.count());
    expect_same(count_live, reference::count_live, one.floats(), one.count());
  });
}

TEST_P(SignKernels, MinusZeroIsNegativeInTheBitAndInTheResidual) {
  const float p[] = {-0.0F, 0.0F};
  float e[2];
  std::uint8_t bits[8];
  code(p, nullptr, 2, 0.5F, 1.0F, e, bits);
  EXPECT_EQ(bits[0], 1);
  EXPECT_EQ(e[0], 0.5F);
  EXPECT_EQ(e[1], -0.5F);
}

}  // namespace
}  // namespace laconic::kernels
