#include "laconic/kernels/vote.h"

#include <gtest/gtest.h>

#include "laconic/kernels/reference.h"
#include "tests/support/cases.h"
#include "tests/support/votes.h"

namespace laconic::kernels {
namespace {

using testing::Array;
using testing::Arrays;
using testing::Case;
using testing::Counted;
using testing::expect_same;
using testing::for_each_case;
using testing::for_each_size;
using testing::kVoterCounts;
using testing::Votes;

constexpr LionMoments kMoments{0.9F, 0.1F, 0.99F, 0.01F};
constexpr Ties kBoth[] = {{false}, {true}};

class VoteKernels : public testing::OnEveryTarget {};
LACONIC_ON_EVERY_TARGET(VoteKernels);

// Zeros of both signs, and momenta that cancel their gradients.
void add_zeros(Array<float>& g, Array<float>& m) {
  for (std::size_t k = 0; k < g.values.size(); ++k) {
    if (k % 7 == 3) g.values[k] = m.values[k] = k % 2 == 0 ? 0.0F : -0.0F;
    if (k / 64 % 3 == 1) g.values[k] = k % 2 == 0 ? 0.0F : -0.0F;
  }
}

TEST_P(VoteKernels, LionStepEqualsTheReference) {
  for_each_case([](Case& one) {
    auto g = one.finite(), m = one.finite();
    const auto x = one.floats();
    add_zeros(g, m);
    expect_same(lion_step, reference::lion_step, LionStep{kMoments, 0.013F, 0.9997F}, g, m, x,
                one.count());
  });
}

TEST_P(VoteKernels, WhatHasNeitherMomentumNorGradientOnlyDecays) {
  float m[] = {0, 0, -0.0F, 1}, x[] = {1, -2, 4, 8};
  const float g[] = {0, -0.0F, 0, -9};  // the last: c = 0.9 - 0.9 of exact tenths
  lion_step({{0.5F, 0.5F, 0.5F, 0.5F}, 0.25F, 0.5F}, g, m, x, 4);
  EXPECT_EQ(x[0], 0.5F);
  EXPECT_EQ(x[1], -1);
  EXPECT_EQ(x[2], 2);
  EXPECT_EQ(x[3], 4.25F);
}

TEST_P(VoteKernels, LionVotesEqualTheReference) {
  for_each_case(
      [](Case& one) {
        auto g = one.finite(), m = one.finite();
        add_zeros(g, m);
        const Array<std::uint64_t> active{{~std::uint64_t{0}}};
        for (const Ties ties : kBoth)
          expect_same(lion_votes, reference::lion_votes, kMoments, ties, g, m, one.count(),
                      one.bits(), active);
        for (const float last : {-1e16F, 3.0F}) {
          if (one.count() == 0) break;
          g.values.back() = last;
          expect_same(lion_votes, reference::lion_votes, kMoments, kBoth[0], g, m, one.count(),
                      one.bits(), active);
        }
        for (std::size_t at = 0; at < one.count(); at += 1 + one.count() / 3) {
          auto bad = g;
          bad.values[at] = at % 2 == 0 ? 1.1e16F : std::numeric_limits<float>::quiet_NaN();
          expect_same(lion_votes, reference::lion_votes, kMoments, kBoth[0], bad, m, one.count(),
                      one.bits(), active);
        }
      },
      4096);
}

TEST_P(VoteKernels, VoteEqualsTheReference) {
  for_each_case([](Case& one) {
    auto c = one.floats(), other = one.floats();
    add_zeros(c, other);
    for (const Ties ties : kBoth)
      expect_same(vote, reference::vote, ties, c, one.count(), one.bits());
  });
}

TEST_P(VoteKernels, ZerosTakeSidesByPositionAndStep) {
  const float zeros[5] = {0, -0.0F, 0, 0, -0.0F};
  std::uint8_t bits[8];
  vote({.odd = false}, zeros, 5, bits);
  EXPECT_EQ(bits[0], 0b10101);
  vote({.odd = true}, zeros, 5, bits);
  EXPECT_EQ(bits[0], 0b01010);
}

TEST_P(VoteKernels, MajorityEqualsTheReference) {
  for_each_size([](Case& one) {
    if (one.words() > 64) return;
    for (int ranks : kVoterCounts) {
      const Votes votes(one, ranks);
      for (const Ties ties : kBoth)
        expect_same(majority, reference::majority, ties, votes.bits, votes.active, ranks,
                    one.words(), one.bits());
    }
  });
}

TEST_P(VoteKernels, MajorityOfCountsEqualsTheReferenceAndThatOfSigns) {
  for_each_size([](Case& one) {
    if (one.words() > 64) return;
    for (int ranks : kVoterCounts) {
      const Counted in(one, ranks);
      for (const Ties ties : kBoth)
        expect_same(majority_of, reference::majority_of, ties, in.counts, in.voters, in.planes,
                    one.words(), one.bits());
    }
  });
}

TEST_P(VoteKernels, EvenManyRanksAreCounted) {
  for (int ranks : {255, 256, 65535}) {
    // All vote: word 0 has every other bit set on every rank, word 1 is active nowhere.
    std::vector<std::uint8_t> bits(16, 0x55), active{1};
    const std::vector<const std::uint8_t*> all(static_cast<std::size_t>(ranks), bits.data()),
        voting(static_cast<std::size_t>(ranks), active.data());
    std::uint8_t out[16];
    EXPECT_EQ(majority({}, all.data(), voting.data(), ranks, 2, out), 1U);
    for (int byte = 0; byte < 16; ++byte) EXPECT_EQ(out[byte], byte < 8 ? 0x55 : 0) << ranks;
  }
}

TEST_P(VoteKernels, AddCountsEqualsTheReference) {
  for_each_size([](Case& one) {
    for (const auto& [messages, ranks] : {std::pair{1, 1}, {2, 3}, {3, 2}, {5, 8}}) {
      const int planes = planes_of(ranks), sum = planes_of(messages * ranks);
      Arrays<std::uint8_t> counts, voters;
      for (int r = 0; r < messages; ++r) {
        const Counted in(one, ranks);
        counts.push_back(in.counts);
        std::vector<std::uint8_t> bytes(2 * one.words());
        if (!bytes.empty()) std::memcpy(bytes.data(), in.voters.values.data(), bytes.size());
        voters.push_back(one.array(bytes));
      }
      expect_same(add_counts, reference::add_counts, counts, voters, messages, planes, one.words(),
                  sum, one.bytes(one.words() * static_cast<std::size_t>(sum) * 8),
                  one.array(std::vector<std::uint16_t>(one.words())));
    }
  });
}

// Counting in two stages, as nodes do, is counting at once.
TEST_P(VoteKernels, CountsOfNodesAddUpToThoseOfRanks) {
  for_each_size([](Case& one) {
    if (one.words() > 64) return;
    const Votes votes(one, 6);
    std::vector<const std::uint8_t*> bits, active;
    for (const auto& array : votes.bits) bits.push_back(array.values.data());
    for (const auto& array : votes.active) active.push_back(array.values.data());
    const std::size_t words = one.words();
    std::vector<std::uint8_t> node[3], voters[3], sum(words * 24), at_once(words * 8),
        out(words * 8);
    const std::uint8_t *counts_of[3], *voters_of[3];
    for (std::size_t n = 0; n < 3; ++n) {
      node[n].resize(words * 16);
      std::vector<std::uint16_t> number(words);
      count_signs(bits.data() + 2 * n, active.data() + 2 * n, 2, words, node[n].data(),
                  number.data());
      voters[n].resize(2 * words);
      if (words > 0) std::memcpy(voters[n].data(), number.data(), 2 * words);
      counts_of[n] = node[n].data();
      voters_of[n] = voters[n].data();
    }
    std::vector<std::uint16_t> all(words);
    add_counts(counts_of, voters_of, 3, 2, words, 3, sum.data(), all.data());
    for (const Ties ties : kBoth) {
      const auto there = majority(ties, bits.data(), active.data(), 6, words, at_once.data());
      EXPECT_EQ(majority_of(ties, sum.data(), all.data(), 3, words, out.data()), there);
      EXPECT_EQ(out, at_once);
    }
  });
}

}  // namespace
}  // namespace laconic::kernels
