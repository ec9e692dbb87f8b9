#pragma once

#include <cstddef>
#include <cstdint>

#include "laconic/kernels/arithmetic.h"

// Votes of signs. Bits, words, counts and voters as in random_sign.h: 1 means +1. Vectors begin at an
// even position, so that ties follow from positions in the arrays.
namespace laconic::kernels {

// c = beta1*m + (1-beta1)*g; m = beta2*m + (1-beta2)*g; x = x*decay - lr*sgn(c), sgn(0) = 0.
void lion_step(const LionStep& step, const float* g, float* m, float* x,
               std::size_t count) noexcept;

// The same moments; bit = c > 0, or the tie where c == 0. `active` gets the activity of up to 64
// words: bit w is set when any g in word w is not 0. False where all_finite(g, count) does not hold:
// then m stays, and bits and activity are 0. REQUIRES: count <= 4096.
bool lion_votes(const LionMoments& step, Ties ties, const float* g, float* m, std::size_t count,
                std::uint8_t* bits, std::uint64_t* active) noexcept;

// bit = c > 0, or the tie where c == 0.
void vote(Ties ties, const float* c, std::size_t count, std::uint8_t* bits) noexcept;

// What most of the ranks on which a word is active vote for; equal votes are a tie, and words
// without voters get 0 bits. Returns the activity of up to 64 words: bit w is set when word w has
// voters. REQUIRES: 1 <= ranks <= 65535, words <= 64.
std::uint64_t majority(Ties ties, const std::uint8_t* const* bits,
                       const std::uint8_t* const* active, int ranks, std::size_t words,
                       std::uint8_t* out) noexcept;
// The same of counts.
std::uint64_t majority_of(Ties ties, const std::uint8_t* counts, const std::uint16_t* voters,
                          int planes, std::size_t words, std::uint8_t* out) noexcept;

// Adds counts of `planes` planes, and their voters (16 bits each, of any alignment), of `messages`
// messages to counts of `planes_out` planes. What exceeds those is dropped. REQUIRES: planes <=
// planes_out <= 16.
void add_counts(const std::uint8_t* const* counts, const std::uint8_t* const* voters, int messages,
                int planes, std::size_t words, int planes_out, std::uint8_t* out,
                std::uint16_t* voters_out) noexcept;

}  // namespace laconic::kernels
