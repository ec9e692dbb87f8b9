#include "laconic/kernels/dense.h"

#include <gtest/gtest.h>

#include <limits>

#include "laconic/kernels/reference.h"
#include "tests/support/cases.h"

namespace laconic::kernels {
namespace {

using testing::Array;
using testing::Arrays;
using testing::Case;
using testing::expect_same;
using testing::for_each_case;
using testing::for_each_size;

class DenseKernels : public testing::OnEveryTarget {};
LACONIC_ON_EVERY_TARGET(DenseKernels);

Array<std::uint16_t> bf16_output(Case& one) {
  Array<std::uint16_t> out = one.bf16();
  out.equal = testing::same_bf16;
  return out;
}

TEST_P(DenseKernels, BlendEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto r = one.floats(), e = one.floats(), live = one.live();
    expect_same(blend, reference::blend, 0.8F, r, nullptr, one.count(), e);
    expect_same(blend, reference::blend, 0.8F, r, live, one.count(), e);
  });
}

TEST_P(DenseKernels, AddEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto a = one.floats(), acc = one.floats();
    expect_same(add, reference::add, a, one.count(), acc);
  });
}

TEST_P(DenseKernels, ScaleEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto a = one.floats();
    for (float factor : {1.0F / 3.0F, 0.0F, -1.0F, 1e-30F})
      expect_same(scale, reference::scale, a, one.count(), factor);
  });
}

TEST_P(DenseKernels, SumEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto out = one.floats();
    Arrays<float> in;
    for (int inputs = 1; inputs <= 5; ++inputs) {
      in.push_back(one.floats());
      const float factor = 1.0F / static_cast<float>(inputs);
      expect_same(sum, reference::sum, in, inputs, one.count(), factor, out);
      expect_same(sum, reference::sum, in, inputs, one.count(), factor, in.front());
      expect_same(sum, reference::sum, in, inputs, one.count(), factor, in.back());
    }
  });
}

TEST_P(DenseKernels, SumMayWriteOverAnyOfItsInputs) {
  for_each_size([](Case& one) {
    Arrays<float> in;
    for (int i = 0; i < 17; ++i) in.push_back(one.floats());
    for (const Array<float>& input : in)
      expect_same(sum, reference::sum, in, 17, one.count(), 1.0F / 17.0F, input);
  });
}

TEST_P(DenseKernels, SumOfBf16EqualsTheReference) {
  for_each_case([](Case& one) {
    const auto out = one.floats();
    Arrays<std::uint16_t> in;
    for (int inputs = 1; inputs <= 5; ++inputs) {
      in.push_back(one.bf16());
      const float factor = 1.0F / static_cast<float>(inputs);
      expect_same(sum_bf16, reference::sum_bf16, in, inputs, one.count(), factor, out);
    }
  });
}

TEST_P(DenseKernels, MeanOfBf16AndOwnValuesEqualsTheReference) {
  for_each_case([](Case& one) {
    for (int inputs = 1; inputs <= 5; ++inputs)
      for (int own = 0; own < inputs; own += 2) {
        std::vector<std::vector<std::uint16_t>> others;
        for (int i = 0; i < inputs; ++i) others.push_back(one.bf16().values);
        std::vector<const std::uint16_t*> in;
        for (const auto& other : others) in.push_back(other.data());
        in[static_cast<std::size_t>(own)] = nullptr;
        const float factor = 1.0F / static_cast<float>(inputs);
        std::vector<float> wanted = one.floats().values, found = wanted;
        std::vector<std::uint16_t> out(wanted.size()), same(wanted.size());
        reference::mean_bf16(in.data(), inputs, one.count(), factor, wanted.data(), out.data());
        mean_bf16(in.data(), inputs, one.count(), factor, found.data(), same.data());
        for (std::size_t k = 0; k < one.count(); ++k) {
          const bool nan = std::isnan(wanted[k]);
          EXPECT_EQ(std::isnan(found[k]), nan) << "at " << k;
          if (nan) continue;
          EXPECT_EQ(bits_of(found[k]), bits_of(wanted[k])) << "at " << k;
          EXPECT_EQ(same[k], out[k]) << "at " << k;
        }
      }
  });
}

TEST_P(DenseKernels, Bf16ConversionsEqualTheReference) {
  for_each_case([](Case& one) {
    expect_same(to_bf16, reference::to_bf16, one.floats(), one.count(), bf16_output(one));
    expect_same(from_bf16, reference::from_bf16, one.bf16(), one.count(), one.floats());
  });
}

TEST_P(DenseKernels, EveryBf16ValueSurvivesTheWayThroughFloat) {
  constexpr std::size_t kAll = 1 << 16;
  std::vector<std::uint16_t> in(kAll), out(kAll);
  std::vector<float> wide(kAll);
  for (std::size_t k = 0; k < kAll; ++k) in[k] = static_cast<std::uint16_t>(k);
  from_bf16(in.data(), kAll, wide.data());
  to_bf16(wide.data(), kAll, out.data());
  for (std::size_t k = 0; k < kAll; ++k) {
    const bool nan = (in[k] & 0x7FFF) > 0x7F80;
    ASSERT_EQ(nan ? out[k] & 0x7FC0 : out[k], nan ? 0x7FC0 : in[k]) << "at " << k;
  }
}

TEST_P(DenseKernels, AllFiniteEqualsTheReference) {
  for_each_case([](Case& one) {
    expect_same(all_finite, reference::all_finite, one.floats(), one.count());
    expect_same(all_finite, reference::all_finite, one.finite(), one.count());
  });
}

TEST_P(DenseKernels, AllFiniteSeesABadValueAtEveryPlace) {
  for (std::size_t count : {1, 63, 64, 65, 200}) {
    std::vector<float> g(count, 1.0F);
    g[0] = -kLargestGradient;
    EXPECT_TRUE(all_finite(g.data(), count));
    for (std::size_t k = 0; k < count; ++k)
      for (float bad : {std::numeric_limits<float>::quiet_NaN(), 1.0000001e16F,
                        -std::numeric_limits<float>::infinity()}) {
        const float good = std::exchange(g[k], bad);
        EXPECT_FALSE(all_finite(g.data(), count)) << bad << " at " << k << " of " << count;
        g[k] = good;
      }
  }
}

TEST_P(DenseKernels, SumOfSquaresEqualsTheReference) {
  for_each_case([](Case& one) {
    expect_same(sum_of_squares, reference::sum_of_squares, one.floats(), one.count());
  });
}

}  // namespace
}  // namespace laconic::kernels
