// The pieces that the kernels share, compiled once for each target (Highway's -inl.h convention).
#if defined(LACONIC_KERNELS_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_VECTOR_INL_H_
#undef LACONIC_KERNELS_VECTOR_INL_H_
#else
#define LACONIC_KERNELS_VECTOR_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "laconic/kernels/sign.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Sums have 16 lanes, so no vector is wider. `One` serves the tail: one body for both, the width in
// the tag.
using Full = hn::CappedTag<float, 16>;
using One = hn::CappedTag<float, 1>;
using Vector = hn::Vec<Full>;
constexpr std::size_t kWidth = hn::MaxLanes(Full());
static_assert(16 % kWidth == 0, "scalable vectors are disabled for these kernels");

// Asks for what stands so many elements after at[i], one tile where nothing is given; once per 16
// elements, a line of the cache. A block is worked on twice, and the second time memory would rest;
// past the end of an array it does nothing. An integer, since no pointer may lie there. Into L1
// where kNear, else into L2.
template <std::size_t kElements = 4096, bool kNear = false>
HWY_INLINE void prefetch_ahead(const float* at, std::size_t i) {
  if (i % 16 != 0) return;
  const auto next = reinterpret_cast<std::uintptr_t>(at + i) + kElements * sizeof(float);
  __builtin_prefetch(reinterpret_cast<const void*>(next), 0, kNear ? 3 : 2);
}

// The same line of the next page, into L1. What the hardware fetches by itself ends with a page, and
// a CPU looks some hundred instructions ahead: few elements, where there is much to compute.
constexpr std::size_t kPage = 1024;
HWY_INLINE void prefetch_page_ahead(const float* at, std::size_t i) {
  prefetch_ahead<kPage, true>(at, i);
}

// body(d, i) for the vectors of every 16 elements of [0, count), then for every element of the tail.
// A count that is a constant is a multiple of 16.
template <class Count, class Body>
HWY_INLINE void for_each(Count count, const Body& body) {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (std::size_t k = 0; k < 16; k += kWidth) body(Full(), i + k);
  if constexpr (std::is_same_v<Count, std::size_t>)
    for (; i < count; ++i) body(One(), i);
}

// Lane i % 16 becomes join(d, lane, term(d, i)).
template <class Join, class Term>
HWY_INLINE void join_lanes(std::size_t count, Lanes& lanes, const Join& join, const Term& term) {
  const Full d;
  constexpr std::size_t kVectors = 16 / kWidth;
  Vector joined[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) joined[k] = hn::Load(d, lanes.lane + k * kWidth);
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (std::size_t k = 0; k < kVectors; ++k)
      joined[k] = join(d, joined[k], term(d, i + k * kWidth));
  for (std::size_t k = 0; k < kVectors; ++k) hn::Store(joined[k], d, lanes.lane + k * kWidth);
  for (; i < count; ++i) {
    const One one;
    float* lane = lanes.lane + i % 16;
    hn::StoreU(join(one, hn::LoadU(one, lane), term(one, i)), one, lane);
  }
}

// Adds term(d, i) to the 16 lanes, lane i % 16.
template <class Term>
HWY_INLINE void accumulate(std::size_t count, Lanes& lanes, const Term& term) {
  join_lanes(
      count, lanes, [](auto, auto sum, auto value) HWY_ATTR { return hn::Add(sum, value); }, term);
}

// The order of magnitudes is that of their bits as integers.
template <class D>
HWY_INLINE hn::Vec<D> larger(D d, hn::Vec<D> largest, hn::Vec<D> value) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::Max(hn::BitCast(di, largest), hn::BitCast(di, hn::Abs(value))));
}

// Lane i % 16 becomes the larger of itself and |value(d, i)|.
template <class Value>
HWY_INLINE void find_largest(std::size_t count, Lanes& lanes, const Value& value) {
  join_lanes(
      count, lanes,
      [](auto d, auto largest, auto next) HWY_ATTR { return larger(d, largest, next); }, value);
}

// Bits [i, i + lanes) of a bit array as a mask. REQUIRES: i is a multiple of the lanes.
template <class D>
HWY_INLINE hn::Mask<D> load_bits(D d, const std::uint8_t* bits, std::size_t i) {
  if constexpr (hn::MaxLanes(D()) >= 8) {
    return hn::LoadMaskBits(d, bits + i / 8);
  } else {
    const std::uint8_t byte[8] = {static_cast<std::uint8_t>(bits[i / 8] >> (i % 8))};
    return hn::LoadMaskBits(d, byte);
  }
}

// `set` or `clear` by the bits of elements i to i + 4 * kWidth, as take(number, vector). Where masks
// are vectors, a bit that is shifted to the place of the sign chooses with fewer instructions than a
// mask that is made of it. REQUIRES: i is a multiple of 4 * kWidth.
template <class Take>
HWY_INLINE void choose_by_bits(const std::uint8_t* bits, std::size_t i, Vector set, Vector clear,
                               const Take& take) {
  const Full d;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
  const hn::RebindToUnsigned<Full> du;
  static constexpr std::uint32_t kToSign[] = {31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21,
                                              20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10,
                                              9,  8,  7,  6,  5,  4,  3,  2,  1,  0};
  std::uint32_t word = 0;
  std::memcpy(&word, bits + i / 8, 4 * kWidth / 8);
  for (std::size_t k = 0; k < 4; ++k) {
    const auto shifted = hn::Shl(hn::Set(du, word), hn::LoadU(du, kToSign + k * kWidth));
    take(k, hn::IfNegativeThenElse(hn::BitCast(d, shifted), set, clear));
  }
#else
  for (std::size_t k = 0; k < 4; ++k)
    take(k, hn::IfThenElse(load_bits(d, bits, i + k * kWidth), set, clear));
#endif
}

// The inverse of load_bits. Vectors narrower than a byte must be stored in ascending order.
template <class D>
HWY_INLINE void store_bits(D d, hn::Mask<D> mask, std::uint8_t* bits, std::size_t i) {
  if constexpr (hn::MaxLanes(D()) >= 8) {
    hn::StoreMaskBits(d, mask, bits + i / 8);
  } else {
    std::uint8_t byte[8] = {};
    hn::StoreMaskBits(d, mask, byte);
    const auto kept = static_cast<std::uint8_t>(i % 8 == 0 ? 0 : bits[i / 8]);
    bits[i / 8] = static_cast<std::uint8_t>(kept | (byte[0] << (i % 8)));
  }
}

// Where the sign bit is set.
template <class D>
HWY_INLINE hn::Mask<D> sign_mask(D d, hn::Vec<D> value) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  static_cast<void>(d);
  return hn::MaskFromVec(value);  // x86 reads no other bit of a mask's lanes
#else
  const hn::RebindToSigned<D> di;
  return hn::RebindMask(d, hn::Lt(hn::BitCast(di, value), hn::Zero(di)));
#endif
}

// `coded` with the sign of `value`; REQUIRES: `positive` is not negative, `negative` is its opposite.
// Where masks are vectors, the sign chooses with one instruction less than it is copied with.
template <class V>
HWY_INLINE V with_sign_of(V value, V positive, V negative) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
  return hn::IfNegativeThenElse(value, negative, positive);
#else
  static_cast<void>(negative);
  return hn::CopySignToAbs(positive, value);
#endif
}

#if HWY_TARGET != HWY_SCALAR
// The bits of four vectors at once, since a CPU stores less often than it adds.
HWY_INLINE void store_four(const hn::Mask<Full> (&four)[4], std::uint8_t* to) {
#if HWY_TARGET == HWY_AVX2
  const auto half = [](hn::Mask<Full> a, hn::Mask<Full> b) HWY_ATTR {
    return _mm256_packs_epi32(_mm256_castps_si256(a.raw), _mm256_castps_si256(b.raw));
  };
  const __m256i bytes = _mm256_packs_epi16(half(four[0], four[1]), half(four[2], four[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const int word = _mm256_movemask_epi8(_mm256_permutevar8x32_epi32(bytes, order));
  std::memcpy(to, &word, sizeof word);
#else
  std::uint64_t word = 0;
  for (std::size_t k = 0; k < 4; ++k) {
    std::uint8_t bytes[8] = {};
    hn::StoreMaskBits(Full(), four[k], bytes);
    std::uint16_t one;
    std::memcpy(&one, bytes, sizeof one);
    word |= std::uint64_t{one} << (k * kWidth);
  }
  std::memcpy(to, &word, kWidth / 2);
#endif
}
#endif

// Whole words are written: the bits after the last of `count` elements are 0.
HWY_INLINE void clear_after(std::size_t count, std::uint8_t* bits) {
  const std::size_t used = (count + 7) / 8, all = (count + 63) / 64 * 8;
  for (std::size_t k = used; k < all; ++k) bits[k] = 0;
}

// Bit i is that of mask(d, i), for [0, count), in whole words.
template <class Count, class Mask>
HWY_INLINE void for_each_bit(Count count, std::uint8_t* bits, const Mask& mask) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; i + 4 * kWidth <= count; i += 4 * kWidth) {
    hn::Mask<Full> four[4];
    for (std::size_t k = 0; k < 4; ++k) four[k] = mask(Full(), i + k * kWidth);
    store_four(four, bits + i / 8);
  }
#endif
  for (; i + 16 <= count; i += 16)
    for (std::size_t k = 0; k < 16; k += kWidth)
      store_bits(Full(), mask(Full(), i + k), bits, i + k);
  if constexpr (std::is_same_v<Count, std::size_t>)
    for (; i < count; ++i) store_bits(One(), mask(One(), i), bits, i);
  clear_after(count, bits);
}

// `value` where live[i] is not 0, else 0; live null: `value`.
template <bool kMasked, class D>
HWY_INLINE hn::Vec<D> only_live(D d, const float* live, std::size_t i, hn::Vec<D> value) {
  if constexpr (kMasked)
    return hn::IfThenZeroElse(hn::Eq(hn::LoadU(d, live + i), hn::Zero(d)), value);
  else
    return value;
}

template <bool kTwo, class D>
HWY_INLINE hn::Vec<D> value_at(D d, const Terms& terms, std::size_t i) {
  const auto a = hn::LoadU(d, terms.a + i);
  if constexpr (!kTwo) return a;
  return hn::Add(hn::Mul(hn::Set(d, terms.of_a), a),
                 hn::Mul(hn::Set(d, terms.of_b), hn::LoadU(d, terms.b + i)));
}

// Whether all that it saw is finite, and no larger than a gradient may be: in the order of bits as
// integers NaN and Inf lie above all others.
class Bound {
 public:
  HWY_INLINE Bound() : largest_(hn::Zero(Full())), last_(hn::Zero(One())) {}
  template <class D>
  HWY_INLINE void see(D d, hn::Vec<D> value) {
    if constexpr (hn::MaxLanes(D()) == 1)
      last_ = larger(d, last_, value);
    else
      largest_ = larger(d, largest_, value);
  }
  HWY_INLINE bool holds() const {
    const hn::RebindToSigned<Full> di;
    const hn::RebindToSigned<One> d1;
    const std::int32_t limit = hn::GetLane(hn::BitCast(d1, hn::Set(One(), kLargestGradient)));
    return hn::AllFalse(di, hn::Gt(hn::BitCast(di, largest_), hn::Set(di, limit))) &&
           hn::GetLane(hn::BitCast(d1, last_)) <= limit;
  }

 private:
  Vector largest_;
  hn::Vec<One> last_;
};

// The sum of two terms and e at i; `bound` sees what the terms bound.
template <class D>
HWY_INLINE hn::Vec<D> bounded_sum_at(D d, const Terms& terms, const float* e, std::size_t i,
                                     Bound& bound) {
  const auto sum = value_at<true>(d, terms, i);
  bound.see(d, terms.bounded == Bounded::kSecond ? hn::LoadU(d, terms.b + i) : sum);
  return hn::Add(sum, hn::LoadU(d, e + i));
}

// a + e (without feedback: a), 0 where live is 0.
template <bool kFeedback, bool kMasked, bool kTwo = false, class D>
HWY_INLINE hn::Vec<D> sum_at(D d, const Terms& a, const float* e, const float* live,
                             std::size_t i) {
  auto value = value_at<kTwo>(d, a, i);
  if constexpr (kFeedback) value = hn::Add(value, hn::LoadU(d, e + i));
  return only_live<kMasked>(d, live, i, value);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
