#include "laconic/kernels/integer.h"

#include <cfloat>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/integer.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "laconic/kernels/fields-inl.h"
#include "laconic/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// Codes of so many elements pass through bytes on the stack.
constexpr std::size_t kRun = 256;

template <bool kFeedback, bool kMasked>
HWY_INLINE void measure_as(const float* a, const float* e, const float* live, std::size_t count,
                           float* p, Lanes& lanes) {
  find_largest(count, lanes, [=](auto d, std::size_t i) HWY_ATTR {
    prefetch_ahead(a, i);
    const auto value = sum_at<kFeedback, kMasked>(d, a, e, live, i);
    hn::StoreU(value, d, p + i);
    return value;
  });
}

void MeasureLargest(const float* a, const float* e, const float* live, std::size_t count, float* p,
                    Lanes& lanes) {
  if (live != nullptr)
    e ? measure_as<true, true>(a, e, live, count, p, lanes)
      : measure_as<false, true>(a, e, live, count, p, lanes);
  else
    e ? measure_as<true, false>(a, e, live, count, p, lanes)
      : measure_as<false, false>(a, e, live, count, p, lanes);
}

// work(begin, count) for the runs of `count` elements.
template <class Work>
HWY_INLINE void for_each_run(std::size_t count, const Work& work) {
  for (std::size_t at = 0; at < count; at += kRun) work(at, count - at < kRun ? count - at : kRun);
}

// So many elements are measured, then encoded: they stay in L1, and no block waits for the scale of
// the one before. Meanwhile as many more are fetched, each once, so that memory never rests.
constexpr std::size_t kTogether = 512, kAhead = 512;

HWY_INLINE void prefetch_word(const float* at) {
  for (std::size_t k = 0; k < kWord; k += 16) prefetch_ahead<kAhead>(at, k);
}

// What the codes of a block are made of: p = a + e, or a where e is null.
struct Coding {
  Terms a;
  const float *e, *live;
  float scale, inverse, gain;
  float* left;
};

// Writes what is left and returns the codes in the lowest bits of the lanes, two's complement. To
// add 1.5 * 2^23 rounds to the nearest integer, ties to even, and leaves it in the last bits. With
// feedback p was measured, so that no code lies outside of ±L.
template <int kBits, bool kFeedback, bool kMasked, bool kGain, bool kTwo, class D>
HWY_INLINE auto code_at(D d, const Coding& to, std::size_t i) {
  const auto rounder = hn::Set(d, 12582912.0F);
  const auto value = sum_at<kFeedback, kMasked, kTwo>(d, to.a, to.e, to.live, i);
  auto scaled = hn::Mul(value, hn::Set(d, to.inverse));
  if constexpr (!kFeedback) {
    constexpr auto kLargest = static_cast<float>(largest_code(kBits));
    scaled = hn::Min(hn::Max(scaled, hn::Set(d, -kLargest)), hn::Set(d, kLargest));
  }
  const auto sum = hn::Add(scaled, rounder);
  const auto decoded = hn::Mul(hn::Sub(sum, rounder), hn::Set(d, to.scale));
  auto left = hn::Sub(value, decoded);
  if constexpr (kGain) left = hn::Mul(left, hn::Set(d, to.gain));
  hn::StoreU(left, d, to.left + i);
  return hn::BitCast(hn::RebindToUnsigned<D>(), sum);
}

// The last elements of a block, fewer than a word.
template <int kBits, bool kFeedback, bool kMasked, bool kTwo>
HWY_INLINE void encode_tail(const Coding& to, std::size_t begin, std::size_t count,
                            std::uint8_t* codes) {
  const One d;
  std::memset(codes, 0, bytes_of<kBits>(kWord));
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint32_t code =
        hn::GetLane(code_at<kBits, kFeedback, kMasked, true, kTwo>(d, to, begin + k));
    codes[bytes_of<kBits>(k)] = static_cast<std::uint8_t>(
        codes[bytes_of<kBits>(k)] | (code & ((1U << kBits) - 1)) << (k * kBits % 8));
  }
}

template <int kBits, bool kFeedback, bool kMasked, bool kGain, bool kTwo = false>
HWY_INLINE void encode_as(const Coding& to, std::size_t count, std::uint8_t* codes) {
  std::size_t i = 0;
  if constexpr (kWidth >= 4)
    for (; i + kWord <= count; i += kWord) {
      prefetch_word(to.left + i);
      for (std::size_t k = 0; k < kWord; k += 4 * kWidth)
        write_fields<kBits>(hn::RebindToUnsigned<Full>(), codes + bytes_of<kBits>(i + k),
                            [&](std::size_t at) HWY_ATTR {
                              return code_at<kBits, kFeedback, kMasked, kGain, kTwo>(Full(), to,
                                                                                     i + k + at);
                            });
    }
  for (; i < count; i += kWord)
    encode_tail<kBits, kFeedback, kMasked, kTwo>(to, i, count - i < kWord ? count - i : kWord,
                                                 codes + bytes_of<kBits>(i));
}

template <int kBits>
HWY_INLINE void encode(const float* p, const float* live, std::size_t count, float scale,
                       float gain, float* e, std::uint8_t* codes) {
  const Coding to{p, nullptr, live, scale, inverse_scale(scale), gain, e};
  live ? encode_as<kBits, false, true, true>(to, count, codes)
       : encode_as<kBits, false, false, true>(to, count, codes);
}

void ToIntegers(const float* p, const float* live, std::size_t count, int bits, float scale,
                float gain, float* e, std::uint8_t* codes) {
  bits == 8   ? encode<8>(p, live, count, scale, gain, e, codes)
  : bits == 4 ? encode<4>(p, live, count, scale, gain, e, codes)
              : encode<2>(p, live, count, scale, gain, e, codes);
}

// The largest |a + e|; infinite where the terms are out of their bound. Not inlined: GCC 12 for ARM
// crashes on the loop around it.
template <bool kMasked, bool kTwo>
HWY_NOINLINE float largest_sum(const Terms& a, const float* e, const float* live,
                               std::size_t count) {
  const Full d;
  const hn::RebindToSigned<Full> di;
  auto first = hn::Zero(d), second = hn::Zero(d);
  Bound bound;
  const auto sum = [&](auto tag, std::size_t at) HWY_ATTR {
    if constexpr (kTwo)
      return bounded_sum_at(tag, a, e, at, bound);
    else
      return sum_at<true, kMasked>(tag, a, e, live, at);
  };
  std::size_t i = 0;
  for (; i + kWord <= count; i += kWord) {
    prefetch_word(a.a + i);
    if constexpr (kTwo) prefetch_word(a.b + i);
    for (std::size_t k = 0; k < kWord; k += 2 * kWidth) {
      first = larger(d, first, sum(d, i + k));
      second = larger(d, second, sum(d, i + k + kWidth));
    }
  }
  const One one;
  auto last = hn::Zero(one);
  for (; i < count; ++i) last = larger(one, last, sum(one, i));
  if (kTwo && !bound.holds()) return HUGE_VALF;
  const auto most = hn::MaxOfLanes(di, hn::BitCast(di, larger(d, first, second)));
  const float whole = hn::GetLane(hn::BitCast(d, most));
  return hn::GetLane(larger(one, last, hn::Set(one, whole)));
}

template <int kBits, bool kMasked, bool kGain, bool kTwo>
HWY_INLINE std::size_t encode_blocks(const Coding& run, std::size_t count, std::size_t block,
                                     float most, float* scales, std::uint8_t* codes) {
  const std::size_t together = block > kTogether ? block : kTogether / block * block;
  std::size_t done = 0;
  while (done < count) {
    const std::size_t end = count - done < together ? count : done + together;
    std::size_t good = done;
    while (good < end) {
      const std::size_t n = end - good < block ? end - good : block;
      const float largest = largest_sum<kMasked, kTwo>(run.a.from(good), run.e + good,
                                                       kMasked ? run.live + good : nullptr, n);
      const float scale = integer_scale(largest, kBits);
      if (!(largest <= FLT_MAX && scale <= most)) break;
      scales[good / block] = scale;
      good += n;
    }
    for (std::size_t n; done < good; done += n) {
      n = good - done < block ? good - done : block;
      const float scale = scales[done / block];
      encode_as<kBits, true, kMasked, kGain, kTwo>(
          {run.a.from(done), run.e + done, kMasked ? run.live + done : nullptr, scale,
           inverse_scale(scale), run.gain, run.left + done},
          n, codes + bytes_of<kBits>(done));
    }
    if (good < end) break;
  }
  return done;
}

template <int kBits>
HWY_INLINE std::size_t encode_run(const Coding& run, std::size_t count, std::size_t block,
                                  float most, float* scales, std::uint8_t* codes) {
  if (run.a.b != nullptr)
    return encode_blocks<kBits, false, true, true>(run, count, block, most, scales, codes);
  if (run.live != nullptr)
    return encode_blocks<kBits, true, true, false>(run, count, block, most, scales, codes);
  return run.gain == 1
             ? encode_blocks<kBits, false, false, false>(run, count, block, most, scales, codes)
             : encode_blocks<kBits, false, true, false>(run, count, block, most, scales, codes);
}

std::size_t EncodeIntegers(const Terms& a, const float* e, const float* live, std::size_t count,
                           std::size_t block, int bits, float most, float gain, float* left,
                           float* scales, std::uint8_t* codes) {
  const Coding run{a, e, live, 0, 0, gain, left};
  return bits == 8   ? encode_run<8>(run, count, block, most, scales, codes)
         : bits == 4 ? encode_run<4>(run, count, block, most, scales, codes)
                     : encode_run<2>(run, count, block, most, scales, codes);
}

template <class D>
HWY_INLINE hn::Vec<D> value_of(D d, const std::int8_t* codes, float scale) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::int8_t, D> d8;
  const auto code = hn::PromoteTo(di, hn::LoadU(d8, codes));
  return hn::Mul(hn::ConvertTo(d, code), hn::Set(d, scale));
}

template <int kBits, bool kFeedback, bool kMasked>
HWY_INLINE void sum_as(const Integers* from, int ranks, float factor, const float* e,
                       const float* live, std::size_t count, float* q, Lanes& lanes) {
  for_each_run(count, [=, &lanes](std::size_t begin, std::size_t n) HWY_ATTR {
    HWY_ALIGN std::int8_t scratch[kRun];
    HWY_ALIGN float total[kRun];
    for (int r = 0; r < ranks; ++r) {
      const std::int8_t* codes =
          unpacked<kBits>(from[r].codes + bytes_of<kBits>(begin), n, scratch);
      const float scale = from[r].scale;
      for_each(n, [=, &total](auto d, std::size_t k) HWY_ATTR {
        const auto value = value_of(d, codes + k, scale);
        hn::StoreU(r == 0 ? value : hn::Add(hn::LoadU(d, total + k), value), d, total + k);
      });
    }
    find_largest(n, lanes, [=, &total](auto d, std::size_t k) HWY_ATTR {
      const std::size_t i = begin + k;
      auto value = hn::Mul(hn::LoadU(d, total + k), hn::Set(d, factor));
      if constexpr (kFeedback) value = hn::Add(value, hn::LoadU(d, e + i));
      value = only_live<kMasked>(d, live, i, value);
      hn::StoreU(value, d, q + i);
      return value;
    });
  });
}

template <int kBits>
HWY_INLINE void sum(const Integers* from, int ranks, float factor, const float* e,
                    const float* live, std::size_t count, float* q, Lanes& lanes) {
  if (live != nullptr)
    e ? sum_as<kBits, true, true>(from, ranks, factor, e, live, count, q, lanes)
      : sum_as<kBits, false, true>(from, ranks, factor, e, live, count, q, lanes);
  else
    e ? sum_as<kBits, true, false>(from, ranks, factor, e, live, count, q, lanes)
      : sum_as<kBits, false, false>(from, ranks, factor, e, live, count, q, lanes);
}

void SumIntegers(const Integers* from, int ranks, int bits, float factor, const float* e,
                 const float* live, std::size_t count, float* q, Lanes& lanes) {
  bits == 8   ? sum<8>(from, ranks, factor, e, live, count, q, lanes)
  : bits == 4 ? sum<4>(from, ranks, factor, e, live, count, q, lanes)
              : sum<2>(from, ranks, factor, e, live, count, q, lanes);
}

template <int kBits>
HWY_INLINE void decode(const Integers& from, std::size_t count, float* out) {
  for_each_run(count, [=](std::size_t begin, std::size_t n) HWY_ATTR {
    HWY_ALIGN std::int8_t scratch[kRun];
    const std::int8_t* codes = unpacked<kBits>(from.codes + bytes_of<kBits>(begin), n, scratch);
    for_each(n, [=](auto d, std::size_t k) HWY_ATTR {
      hn::StoreU(value_of(d, codes + k, from.scale), d, out + begin + k);
    });
  });
}

void FromIntegers(Integers from, int bits, std::size_t count, float* out) {
  bits == 8   ? decode<8>(from, count, out)
  : bits == 4 ? decode<4>(from, count, out)
              : decode<2>(from, count, out);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {

HWY_EXPORT(MeasureLargest);
HWY_EXPORT(ToIntegers);
HWY_EXPORT(EncodeIntegers);
HWY_EXPORT(SumIntegers);
HWY_EXPORT(FromIntegers);

void measure_largest(const float* a, const float* e, const float* live, std::size_t count, float* p,
                     Lanes& lanes) noexcept {
  HWY_DYNAMIC_DISPATCH(MeasureLargest)(a, e, live, count, p, lanes);
}

float largest_of(const Lanes& lanes) noexcept {
  std::int32_t largest = 0;
  for (const float lane : lanes.lane) {
    std::int32_t bits;
    std::memcpy(&bits, &lane, sizeof bits);
    if (bits > largest) largest = bits;
  }
  float value;
  std::memcpy(&value, &largest, sizeof value);
  return value;
}

void to_integers(const float* p, const float* live, std::size_t count, int bits, float scale,
                 float gain, float* e, std::uint8_t* codes) noexcept {
  HWY_DYNAMIC_DISPATCH(ToIntegers)(p, live, count, bits, scale, gain, e, codes);
}

std::size_t encode_integers(const Terms& a, const float* e, const float* live, std::size_t count,
                            std::size_t block, int bits, float most, float gain, float* left,
                            float* scales, std::uint8_t* codes) noexcept {
  return HWY_DYNAMIC_DISPATCH(EncodeIntegers)(a, e, live, count, block, bits, most, gain, left,
                                              scales, codes);
}

void sum_integers(const Integers* from, int ranks, int bits, float factor, const float* e,
                  const float* live, std::size_t count, float* q, Lanes& lanes) noexcept {
  HWY_DYNAMIC_DISPATCH(SumIntegers)(from, ranks, bits, factor, e, live, count, q, lanes);
}

void from_integers(Integers from, int bits, std::size_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(FromIntegers)(from, bits, count, out);
}

}  // namespace laconic::kernels
#endif
