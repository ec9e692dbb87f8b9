#include <cstring>

#include "laconic/kernels/reference.h"
#include "laconic/kernels/reference_bits.h"

namespace laconic::kernels::reference {

void lion_step(const LionStep& step, const float* g, float* m, float* x,
               std::size_t count) noexcept {
  for (std::size_t k = 0; k < count; ++k) lion_element(step, g[k], m[k], x[k]);
}

bool lion_votes(const LionMoments& step, Ties ties, const float* g, float* m, std::size_t count,
                std::uint8_t* bits, std::uint64_t* active) noexcept {
  clear_words(bits, words_of(count));
  *active = 0;
  if (!all_finite(g, count)) return false;
  for (std::size_t k = 0; k < count; ++k)
    if (votes_plus(next_lion(step, g[k], m[k]), tie_is_plus(ties, k))) set_bit(bits, k);
  *active = activity(g, count);
  return true;
}

void vote(Ties ties, const float* c, std::size_t count, std::uint8_t* bits) noexcept {
  clear_words(bits, words_of(count));
  for (std::size_t k = 0; k < count; ++k)
    if (votes_plus(c[k], tie_is_plus(ties, k))) set_bit(bits, k);
}

std::uint64_t majority(Ties ties, const std::uint8_t* const* bits,
                       const std::uint8_t* const* active, int ranks, std::size_t words,
                       std::uint8_t* out) noexcept {
  clear_words(out, words);
  std::uint64_t any = 0;
  for (std::size_t k = 0; k < words * 64; ++k) {
    int voters = 0, plus = 0;
    for (int r = 0; r < ranks; ++r) {
      if (!bit_of(active[r], k / 64)) continue;
      ++voters;
      plus += bit_of(bits[r], k) ? 1 : 0;
    }
    if (voters == 0) continue;
    any |= std::uint64_t{1} << (k / 64);
    if (majority_is_plus(plus, voters, tie_is_plus(ties, k))) set_bit(out, k);
  }
  return any;
}

std::uint64_t majority_of(Ties ties, const std::uint8_t* counts, const std::uint16_t* voters,
                          int planes, std::size_t words, std::uint8_t* out) noexcept {
  clear_words(out, words);
  std::uint64_t any = 0;
  for (std::size_t k = 0; k < words * 64; ++k) {
    const int all = voters[k / 64];
    if (all == 0) continue;
    any |= std::uint64_t{1} << (k / 64);
    if (majority_is_plus(count_of(counts, planes, k), all, tie_is_plus(ties, k))) set_bit(out, k);
  }
  return any;
}

void add_counts(const std::uint8_t* const* counts, const std::uint8_t* const* voters, int messages,
                int planes, std::size_t words, int planes_out, std::uint8_t* out,
                std::uint16_t* voters_out) noexcept {
  clear_words(out, words * static_cast<std::size_t>(planes_out));
  for (std::size_t w = 0; w < words; ++w) {
    voters_out[w] = 0;
    for (int r = 0; r < messages; ++r) {
      std::uint16_t more;
      std::memcpy(&more, voters[r] + 2 * w, 2);
      voters_out[w] = static_cast<std::uint16_t>(voters_out[w] + more);
    }
    std::uint8_t* word = out + w * static_cast<std::size_t>(planes_out) * 8;
    for (std::size_t k = 0; k < 64; ++k) {
      std::int64_t plus = 0;
      for (int r = 0; r < messages; ++r) plus += count_of(counts[r], planes, w * 64 + k);
      for (int plane = 0; plane < planes_out; ++plane)
        if ((plus >> plane & 1) != 0) set_bit(word, static_cast<std::size_t>(plane) * 64 + k);
    }
  }
}

}  // namespace laconic::kernels::reference
