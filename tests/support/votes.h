#pragma once

#include <vector>

#include "laconic/kernels/reference.h"
#include "tests/support/cases.h"

namespace laconic::testing {

// Votes of `ranks` ranks on the words of a case; some words rest on some ranks, one word in five on
// all.
struct Votes {
  Votes(Case& one, int ranks) {
    for (int i = 0; i < ranks; ++i) {
      bits.push_back(one.bits());
      active.push_back(one.bytes((one.words() + 7) / 8));
      for (std::size_t w = 0; w < one.words(); w += 5)
        active.back().values[w / 8] &= static_cast<std::uint8_t>(~(1U << (w % 8)));
    }
  }
  Arrays<std::uint8_t> bits, active;
};

// What the owner has counted.
struct Counted {
  Counted(Case& one, int ranks) : planes(kernels::planes_of(ranks)) {
    const Votes votes(one, ranks);
    std::vector<const std::uint8_t*> bits, active;
    for (const auto& array : votes.bits) bits.push_back(array.values.data());
    for (const auto& array : votes.active) active.push_back(array.values.data());
    counts = one.bytes(one.words() * static_cast<std::size_t>(planes) * 8);
    voters = one.array(std::vector<std::uint16_t>(one.words()));
    kernels::reference::count_signs(bits.data(), active.data(), ranks, one.words(),
                                    counts.values.data(), voters.values.data());
  }
  int planes;
  Array<std::uint8_t> counts;
  Array<std::uint16_t> voters;
};

inline constexpr int kVoterCounts[] = {1, 2, 3, 4, 7, 8, 15, 16, 33};

}  // namespace laconic::testing
