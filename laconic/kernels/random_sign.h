#pragma once

#include <cstddef>
#include <cstdint>

#include "laconic/kernels/arithmetic.h"

// Binary randomization. Bits as in sign.h, except that 1 means +1. A word is 64 elements;
// arrays of bits hold whole words, and bits past `count` are 0.
namespace laconic::kernels {

// bit = m > s*b, and where m == s*b bit = s < 0: +1 with probability (1 + m/b)/2. b null stands
// for 1. `begin` is the position of m[0] in the vector. REQUIRES: begin % 64 == 0.
void draw(const Draw& draw, std::uint64_t begin, const float* m, const float* b, std::size_t count,
          std::uint8_t* bits) noexcept;

// The moments that signs are drawn from, see next_moments. Words of `wanted` are drawn as by `draw`
// into `bits`, the others' bits are left alone. `active` gets the activity of up to 64 words: bit w
// is set when any g in word w is not 0. False where all_finite(g, count) does not hold: then m, b and
// bits stay, and the activity is 0. REQUIRES: count <= 4096.
bool birder_moments(const BirderMoments& step, const float* g, float* m, float* b,
                    std::size_t count, const Draw& draw, std::uint64_t begin, std::uint64_t wanted,
                    std::uint8_t* bits, std::uint64_t* active) noexcept;

// Counts +1 over the ranks on which a word is active. active[i] holds a bit per word. Word w of the
// count is `planes_of(ranks)` bit planes of 8 bytes, lowest first, at counts + w*planes*8;
// voters[w] is the number of active ranks. REQUIRES: 1 <= ranks <= 65535.
void count_signs(const std::uint8_t* const* bits, const std::uint8_t* const* active, int ranks,
                 std::size_t words, std::uint8_t* counts, std::uint16_t* voters) noexcept;

// Draws +1 with probability count/voters: as `draw` with m = 2*count - voters and b = voters. Words
// without voters get 0 bits.
void redraw(const Draw& draw, std::uint64_t begin, const std::uint8_t* counts,
            const std::uint16_t* voters, int planes, std::size_t count,
            std::uint8_t* bits) noexcept;

// out = +1 or -1, and 0 in words that are not active (`active`: a bit per word).
void signs_to_floats(const std::uint8_t* bits, const std::uint8_t* active, std::size_t count,
                     float* out) noexcept;

// x = x*decay - lr*r, r as above.
void sign_update(float lr, float decay, const std::uint8_t* bits, const std::uint8_t* active,
                 float* x, std::size_t count) noexcept;

// out = 2*count/voters - 1, and 0 where voters is 0.
void counts_to_floats(const std::uint8_t* counts, const std::uint16_t* voters, int planes,
                      std::size_t count, float* out) noexcept;

// out = bf16(clamp(m/b, -1, 1)), 0 where b is 0; b null stands for 1.
void ratio_to_bf16(const float* m, const float* b, std::size_t count, std::uint16_t* out) noexcept;

// out = clamp(m/b, -1, 1), as above.
void ratio(const float* m, const float* b, std::size_t count, float* out) noexcept;

// Bit w set when any value of word w is not 0. REQUIRES: count <= 4096.
std::uint64_t activity(const float* values, std::size_t count) noexcept;

}  // namespace laconic::kernels
