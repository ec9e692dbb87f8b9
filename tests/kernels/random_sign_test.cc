#include "laconic/kernels/random_sign.h"

#include <gtest/gtest.h>

#include <limits>

#include "laconic/kernels/reference.h"
#include "tests/support/cases.h"
#include "tests/support/votes.h"

namespace laconic::kernels {
namespace {

using testing::Array;
using testing::Case;
using testing::Counted;
using testing::expect_same;
using testing::for_each_case;
using testing::for_each_size;
using testing::kVoterCounts;
using testing::Votes;

const Draw kWorker{.key = {17, 4}, .stream = Stream::kWorkerDraw, .rank = 3, .bucket = 2};
const Draw kOwner{
    .key = {0xFFFFFFFF, 0x80000001}, .stream = Stream::kOwnerDraw, .rank = 0xFFFF, .bucket = 7};
// The last one ends where the counter does.
constexpr std::uint64_t kBegins[] = {0, 64, 1 << 20, (std::uint64_t{1} << 35) - 8192};

class RandomSignKernels : public testing::OnEveryTarget {};
LACONIC_ON_EVERY_TARGET(RandomSignKernels);

TEST_P(RandomSignKernels, DrawEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto m = one.floats(), b = one.positive();
    const auto bits = one.bits();
    expect_same(draw, reference::draw, kWorker, kBegins[2], m, b, one.count(), bits);
    expect_same(draw, reference::draw, kOwner, kBegins[1], m, nullptr, one.count(), bits);
  });
}

TEST_P(RandomSignKernels, DrawEqualsTheReferenceWhereverItBegins) {
  for_each_size([](Case& one) {
    const auto m = one.floats(), b = one.positive();
    for (std::uint64_t begin : kBegins)
      expect_same(draw, reference::draw, kWorker, begin, m, b, one.count(), one.bits());
  });
}

TEST_P(RandomSignKernels, DrawBreaksTiesByTheSignOfTheRandomNumber) {
  for_each_size([](Case& one) {
    std::vector<float> ties(one.count());
    const std::vector<float> zeros(one.count());
    for (std::size_t k = 0; k < ties.size(); ++k) {
      const auto random = philox({static_cast<std::uint32_t>(kWorker.stream), kWorker.rank,
                                  kWorker.bucket, static_cast<std::uint32_t>(k / 8)},
                                 kWorker.key);
      const int piece = static_cast<int>(random[k % 8 / 2] >> (k % 2 * 16) & 0xFFFF);
      ties[k] = static_cast<float>(2 * piece + 1 - 65536) / 65536.0F;
    }
    const auto m = one.array(ties), none = one.array(zeros);
    const auto bits = one.bits();
    expect_same(draw, reference::draw, kWorker, 0, m, nullptr, one.count(), bits);
    expect_same(draw, reference::draw, kWorker, 0, none, none, one.count(), bits);
    std::vector<std::uint8_t> drawn(bits.values.size());
    draw(kWorker, 0, ties.data(), nullptr, ties.size(), drawn.data());
    for (std::size_t k = 0; k < ties.size(); ++k)
      ASSERT_EQ(drawn[k / 8] >> (k % 8) & 1, ties[k] < 0 ? 1 : 0);
  });
}

TEST_P(RandomSignKernels, BirderMomentsEqualTheReference) {
  const BirderMoments step{.beta = 0.9F, .one_minus_beta = 0.1F};
  for_each_case(
      [&](Case& one) {
        auto g = one.finite();
        const auto m = one.finite(), b = one.positive();
        const auto bits = one.bits();
        const auto check = [&](std::uint64_t wanted) {
          expect_same(birder_moments, reference::birder_moments, step, g, m, b, one.count(),
                      kWorker, 128, wanted, bits, Array<std::uint64_t>{{~std::uint64_t{0}}});
        };
        for (std::uint64_t wanted : {std::uint64_t{0}, ~std::uint64_t{0}, 0xA5A5F00F12345678})
          check(wanted);
        for (std::size_t k = 0; k < g.values.size(); ++k)
          if (k / 64 % 3 == 1) g.values[k] = k % 2 == 0 ? 0.0F : -0.0F;
        check(0x5A5A0FF0EDCBA987);
        for (const float last : {-1e16F, 3.0F, -1.1e16F, std::numeric_limits<float>::quiet_NaN()}) {
          if (one.count() == 0) break;
          g.values.back() = last;
          check(~std::uint64_t{0});
        }
      },
      4096);
}

TEST_P(RandomSignKernels, BirderMomentsForgetWhatFellBelowTheSmallestScale) {
  const BirderMoments step{.beta = 0.5F, .one_minus_beta = 0.5F};
  float g[] = {0, 0, 0}, m[] = {0x1p-99F, -0x1p-100F, 0x1p-140F},
        b[] = {0x1p-99F, 0x1.fffffep-100F, 0x1p-140F};
  std::uint8_t bits[8] = {};
  std::uint64_t active = 1;
  EXPECT_TRUE(birder_moments(step, g, m, b, 3, kWorker, 0, 1, bits, &active));
  EXPECT_EQ(active, 0U);
  EXPECT_EQ(b[0], 0x1p-100F);
  EXPECT_EQ(m[0], 0x1p-100F);
  for (int k : {1, 2}) {
    EXPECT_EQ(b[k], 0);
    EXPECT_EQ(m[k], 0);
  }
}

TEST_P(RandomSignKernels, CountSignsEqualsTheReference) {
  for_each_size([](Case& one) {
    for (int ranks : kVoterCounts) {
      const Votes votes(one, ranks);
      const Counted out(one, ranks);
      expect_same(count_signs, reference::count_signs, votes.bits, votes.active, ranks, one.words(),
                  out.counts, out.voters);
    }
  });
}

TEST_P(RandomSignKernels, CountSignsHoldsUpToTheMostRanks) {
  for (int ranks : {255, 256, 1000, 65535}) {
    Case one(65, 1, testing::Kind::kOrdinary);
    // Every rank reads the same two words: all of them plus in word 0, none active in word 1.
    std::vector<std::uint8_t> bits(16, 0xFF), active{1};
    const std::vector<const std::uint8_t*> all_bits(static_cast<std::size_t>(ranks), bits.data()),
        all_active(static_cast<std::size_t>(ranks), active.data());
    const int planes = planes_of(ranks);
    std::vector<std::uint8_t> counts(static_cast<std::size_t>(planes) * 16, 0xA5);
    std::uint16_t voters[2] = {1, 1};
    count_signs(all_bits.data(), all_active.data(), ranks, 2, counts.data(), voters);
    EXPECT_EQ(voters[0], ranks);
    EXPECT_EQ(voters[1], 0);
    for (int byte = 0; byte < planes * 8; ++byte) {
      EXPECT_EQ(counts[static_cast<std::size_t>(byte)], (ranks >> byte / 8 & 1) != 0 ? 0xFF : 0);
      EXPECT_EQ(counts[static_cast<std::size_t>(planes * 8 + byte)], 0);
    }
  }
}

TEST_P(RandomSignKernels, RedrawEqualsTheReference) {
  for_each_size([](Case& one) {
    for (int ranks : kVoterCounts) {
      const Counted in(one, ranks);
      for (std::uint64_t begin : {kBegins[0], kBegins[3]})
        expect_same(redraw, reference::redraw, kOwner, begin, in.counts, in.voters, in.planes,
                    one.count(), one.bits());
    }
  });
}

TEST_P(RandomSignKernels, RedrawEqualsTheReferenceWithManyRanks) {
  for (int ranks : {255, 256, 40000, 65535}) {
    Case one(4097, 1, testing::Kind::kOrdinary);
    const int planes = planes_of(ranks);
    const auto counts = one.bytes(one.words() * static_cast<std::size_t>(planes) * 8);
    const auto voters =
        one.array(std::vector<std::uint16_t>(one.words(), static_cast<std::uint16_t>(ranks)));
    expect_same(redraw, reference::redraw, kOwner, 0, counts, voters, planes, one.count(),
                one.bits());
    expect_same(counts_to_floats, reference::counts_to_floats, counts, voters, planes, one.count(),
                one.floats());
  }
}

TEST_P(RandomSignKernels, SignsToFloatsEqualsTheReference) {
  for_each_size([](Case& one) {
    const auto active = one.bytes((one.words() + 7) / 8);
    expect_same(signs_to_floats, reference::signs_to_floats, one.bits(), active, one.count(),
                one.floats());
    expect_same(sign_update, reference::sign_update, 0.008F, 0.9998F, one.bits(), active,
                one.floats(), one.count());
  });
}

TEST_P(RandomSignKernels, CountsToFloatsEqualsTheReference) {
  for_each_size([](Case& one) {
    for (int ranks : kVoterCounts) {
      const Counted in(one, ranks);
      expect_same(counts_to_floats, reference::counts_to_floats, in.counts, in.voters, in.planes,
                  one.count(), one.floats());
    }
  });
}

TEST_P(RandomSignKernels, RatioToBf16EqualsTheReference) {
  for_each_case([](Case& one) {
    const auto m = one.floats(), b = one.positive();
    auto out = one.bf16();
    out.equal = testing::same_bf16;
    expect_same(ratio_to_bf16, reference::ratio_to_bf16, m, b, one.count(), out);
    expect_same(ratio_to_bf16, reference::ratio_to_bf16, m, nullptr, one.count(), out);
    auto floats = one.floats();
    expect_same(ratio, reference::ratio, m, b, one.count(), floats);
    expect_same(ratio, reference::ratio, m, nullptr, one.count(), floats);
  });
}

TEST_P(RandomSignKernels, ActivityEqualsTheReference) {
  for_each_case(
      [](Case& one) {
        auto values = one.floats();
        expect_same(activity, reference::activity, values, one.count());
        for (std::size_t k = 0; k < values.values.size(); ++k)
          if (k % 64 != k / 64 || k / 64 % 3 == 1) values.values[k] = k % 2 == 0 ? 0.0F : -0.0F;
        expect_same(activity, reference::activity, values, one.count());
      },
      4096);
}

}  // namespace
}  // namespace laconic::kernels
