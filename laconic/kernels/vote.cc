#include "laconic/kernels/vote.h"

#include <cstring>

#include "laconic/kernels/dense.h"
#include "laconic/kernels/random_sign.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/vote.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "laconic/kernels/words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// c; m is replaced by the next one.
template <class D>
HWY_INLINE hn::Vec<D> next_c(D d, const LionMoments& s, hn::Vec<D> gradient, float* m) {
  const auto before = hn::LoadU(d, m);
  const auto mixed = [=](float keep, float take) HWY_ATTR {
    return hn::Add(hn::Mul(hn::Set(d, keep), before), hn::Mul(hn::Set(d, take), gradient));
  };
  hn::StoreU(mixed(s.beta2, s.one_minus_beta2), d, m);
  return mixed(s.beta1, s.one_minus_beta1);
}

void LionUpdate(const LionStep& s, const float* g, float* m, float* x, std::size_t count) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto c = next_c(d, s.moments, hn::LoadU(d, g + i), m + i);
    const auto kept = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, s.decay));
    const auto moved = hn::Sub(kept, hn::CopySign(hn::Set(d, s.lr), c));
    hn::StoreU(hn::IfThenElse(hn::Eq(c, hn::Zero(d)), kept, moved), d, x + i);
  });
}

// The votes of elements i.. of a word.
template <class D>
HWY_INLINE hn::Mask<D> voted(D d, Ties ties, hn::Vec<D> c, std::size_t i) {
  static constexpr float kTies[17] = {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};
  const auto zero = hn::Zero(d);
  const auto tie = hn::LoadU(d, kTies + (i + (ties.odd ? 1 : 0)) % 2);
  return hn::Gt(hn::IfThenElse(hn::Eq(c, zero), tie, c), zero);
}

// Only when all gradients have been looked at it is known whether the moments may change. To look
// first would read a tile twice, so they change at once and are kept for the case that a gradient
// is not finite; what is asked for a page ahead then comes as fast as without that.
bool LionVotes(const LionMoments& step, Ties ties, const float* g, float* m, std::size_t count,
               std::uint8_t* bits, std::uint64_t* active) {
  HWY_ALIGN float before[64 * kWord];
  Seen all;
  *active = 0;
  for_each_word(count, [&](std::size_t w, std::size_t at, auto n) HWY_ATTR {
    Seen seen;
    for_each_bit(n, bits + w * 8, [&](auto d, std::size_t i) HWY_ATTR {
      prefetch_page_ahead(g + at, i);
      prefetch_page_ahead(m + at, i);
      const auto gradient = hn::LoadU(d, g + at + i);
      seen.see(d, gradient);
      hn::StoreU(hn::LoadU(d, m + at + i), d, before + at + i);
      return voted(d, ties, next_c(d, step, gradient, m + at + i), i);
    });
    *active |= std::uint64_t{seen.any_nonzero()} << w;
    all.see(seen);
  });
  if (finite(all, g, count)) return true;
  std::memcpy(m, before, count * sizeof(float));
  std::memset(bits, 0, (count + kWord - 1) / kWord * 8);
  *active = 0;
  return false;
}

void Vote(Ties ties, const float* c, std::size_t count, std::uint8_t* bits) {
  for_each_bit(count, bits, [=](auto d, std::size_t i) HWY_ATTR {
    return voted(d, ties, hn::LoadU(d, c + i), i);
  });
}

// Words of bits in the lanes of a vector; bytes of any alignment.
using Words = hn::CappedTag<std::uint64_t, 8>;
using OneWord = hn::CappedTag<std::uint64_t, 1>;
constexpr std::size_t kWords = hn::MaxLanes(Words());

template <class D>
HWY_INLINE hn::Vec<D> load_words(D d, const std::uint8_t* from) {
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Repartition<std::uint8_t, D> bytes;
    return hn::BitCast(d, hn::LoadU(bytes, from));
  } else {
    std::uint64_t word;
    std::memcpy(&word, from, sizeof word);
    return hn::Set(d, word);
  }
}

template <class D>
HWY_INLINE void store_words(D, hn::Vec<D> words, std::uint8_t* to) {
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Repartition<std::uint8_t, D> bytes;
    hn::StoreU(hn::BitCast(bytes, words), bytes, to);
  } else {
    const std::uint64_t word = hn::GetLane(words);
    std::memcpy(to, &word, sizeof word);
  }
}

constexpr int kMostPlanes = 16;

// Bit-sliced: plane j of a count is bit j of 64 counters at once. The count is compared with half
// the voters, from the highest plane down.
template <int kPlanes, class D>
HWY_INLINE void majority_at(D d, Ties ties, const std::uint8_t* const* bits,
                            const std::uint8_t* const* active, int ranks, std::size_t w,
                            std::uint8_t* out, std::uint8_t* active_out) {
  const int planes = kPlanes < kMostPlanes ? kPlanes : planes_of(ranks);
  const auto zero = hn::Zero(d), one = hn::Set(d, std::uint64_t{1});
  hn::Vec<D> plane[kPlanes];
  for (int j = 0; j < planes; ++j) plane[j] = zero;
  auto voters = zero;
  for (int r = 0; r < ranks; ++r) {
    const auto votes = load_bits(d, active[r], w);
    voters = hn::Add(voters, hn::IfThenElseZero(votes, one));
    auto carry = hn::IfThenElseZero(votes, load_words(d, bits[r] + w * 8));
    for (int j = 0; j < planes; ++j) {
      const auto next = hn::And(plane[j], carry);
      plane[j] = hn::Xor(plane[j], carry);
      carry = next;
    }
  }
  const auto half = hn::ShiftRight<1>(voters);
  auto above = zero, equal = hn::Not(zero);
  for (int j = planes - 1; j >= 0; --j) {
    const auto bit = hn::Sub(zero, hn::And(hn::ShiftRightSame(half, j), one));
    above = hn::Or(above, hn::And(equal, hn::AndNot(bit, plane[j])));
    equal = hn::AndNot(hn::Xor(plane[j], bit), equal);
  }
  const auto even = hn::Sub(hn::And(voters, one), one);
  const auto tie = hn::Set(d, ties.odd ? 0xAAAAAAAAAAAAAAAA : 0x5555555555555555);
  const auto some = hn::Ne(voters, zero);
  const auto most = hn::Or(above, hn::And(hn::And(equal, even), tie));
  store_words(d, hn::IfThenElseZero(some, most), out + w * 8);
  store_bits(d, some, active_out, w);
}

template <int kPlanes>
HWY_INLINE std::uint64_t majority_as(Ties ties, const std::uint8_t* const* bits,
                                     const std::uint8_t* const* active, int ranks,
                                     std::size_t words, std::uint8_t* out) {
  std::uint8_t voted[16] = {};
  std::size_t w = 0;
  for (; w + kWords <= words; w += kWords)
    majority_at<kPlanes>(Words(), ties, bits, active, ranks, w, out, voted);
  for (; w < words; ++w) majority_at<kPlanes>(OneWord(), ties, bits, active, ranks, w, out, voted);
  std::uint64_t all;
  std::memcpy(&all, voted, sizeof all);
  return all;
}

// With few ranks the planes stay in registers.
std::uint64_t Majority(Ties ties, const std::uint8_t* const* bits,
                       const std::uint8_t* const* active, int ranks, std::size_t words,
                       std::uint8_t* out) {
  switch (planes_of(ranks)) {
    case 1: return majority_as<1>(ties, bits, active, ranks, words, out);
    case 2: return majority_as<2>(ties, bits, active, ranks, words, out);
    case 3: return majority_as<3>(ties, bits, active, ranks, words, out);
    case 4: return majority_as<4>(ties, bits, active, ranks, words, out);
    default: return majority_as<kMostPlanes>(ties, bits, active, ranks, words, out);
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {

HWY_EXPORT(LionUpdate);
HWY_EXPORT(LionVotes);
HWY_EXPORT(Vote);
HWY_EXPORT(Majority);

void lion_step(const LionStep& step, const float* g, float* m, float* x,
               std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(LionUpdate)(step, g, m, x, count);
}
bool lion_votes(const LionMoments& step, Ties ties, const float* g, float* m, std::size_t count,
                std::uint8_t* bits, std::uint64_t* active) noexcept {
  return HWY_DYNAMIC_DISPATCH(LionVotes)(step, ties, g, m, count, bits, active);
}
void vote(Ties ties, const float* c, std::size_t count, std::uint8_t* bits) noexcept {
  HWY_DYNAMIC_DISPATCH(Vote)(ties, c, count, bits);
}
std::uint64_t majority(Ties ties, const std::uint8_t* const* bits,
                       const std::uint8_t* const* active, int ranks, std::size_t words,
                       std::uint8_t* out) noexcept {
  return HWY_DYNAMIC_DISPATCH(Majority)(ties, bits, active, ranks, words, out);
}

std::uint64_t majority_of(Ties ties, const std::uint8_t* counts, const std::uint16_t* voters,
                          int planes, std::size_t words, std::uint8_t* out) noexcept {
  const std::uint64_t tie = ties.odd ? 0xAAAAAAAAAAAAAAAA : 0x5555555555555555;
  std::uint64_t active = 0;
  for (std::size_t w = 0; w < words; ++w) {
    const std::uint8_t* of_word = counts + w * static_cast<std::size_t>(planes) * 8;
    std::uint64_t above = 0, equal = ~std::uint64_t{0};
    for (int j = planes - 1; j >= 0; --j) {
      std::uint64_t plane;
      std::memcpy(&plane, of_word + static_cast<std::size_t>(j) * 8, 8);
      const std::uint64_t bit = (voters[w] >> 1 >> j & 1) != 0 ? ~std::uint64_t{0} : 0;
      above |= equal & plane & ~bit;
      equal &= ~(plane ^ bit);
    }
    if (voters[w] % 2 == 0) above |= equal & tie;
    if (voters[w] == 0) above = 0;
    std::memcpy(out + w * 8, &above, 8);
    active |= std::uint64_t{voters[w] != 0} << w;
  }
  return active;
}

void add_counts(const std::uint8_t* const* counts, const std::uint8_t* const* voters, int messages,
                int planes, std::size_t words, int planes_out, std::uint8_t* out,
                std::uint16_t* voters_out) noexcept {
  for (std::size_t w = 0; w < words; ++w) {
    std::uint64_t sum[16] = {};
    std::uint16_t voting = 0;
    for (int r = 0; r < messages; ++r) {
      std::uint16_t more;
      std::memcpy(&more, voters[r] + w * 2, 2);
      voting = static_cast<std::uint16_t>(voting + more);
      std::uint64_t carry = 0;
      for (int j = 0; j < planes_out; ++j) {
        std::uint64_t plane = 0;
        if (j < planes)
          std::memcpy(
              &plane,
              counts[r] + (w * static_cast<std::size_t>(planes) + static_cast<std::size_t>(j)) * 8,
              8);
        const std::uint64_t either = sum[j] ^ plane;
        const std::uint64_t next = (sum[j] & plane) | (either & carry);
        sum[j] = either ^ carry;
        carry = next;
      }
    }
    voters_out[w] = voting;
    const auto bytes = static_cast<std::size_t>(planes_out) * 8;
    std::memcpy(out + w * bytes, sum, bytes);
  }
}

}  // namespace laconic::kernels
#endif
