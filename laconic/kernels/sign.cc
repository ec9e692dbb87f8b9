#include "laconic/kernels/sign.h"

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/sign.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "laconic/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

template <Norm kNorm, class V>
HWY_INLINE V magnitude(V p) {
  if constexpr (kNorm == Norm::kL2)
    return hn::Mul(p, p);
  else
    return hn::Abs(p);
}

template <Norm kNorm, bool kFeedback, bool kMasked>
HWY_INLINE void measure_as(const float* a, const float* e, const float* live, std::size_t count,
                           float* p, Lanes& lanes) {
  accumulate(count, lanes, [=](auto d, std::size_t i) HWY_ATTR {
    prefetch_ahead(a, i);
    const auto value = sum_at<kFeedback, kMasked>(d, a, e, live, i);
    hn::StoreU(value, d, p + i);
    return magnitude<kNorm>(value);
  });
}

template <Norm kNorm>
HWY_INLINE void measure_norm(const float* a, const float* e, const float* live, std::size_t count,
                             float* p, Lanes& lanes) {
  if (live != nullptr)
    e ? measure_as<kNorm, true, true>(a, e, live, count, p, lanes)
      : measure_as<kNorm, false, true>(a, e, live, count, p, lanes);
  else
    e ? measure_as<kNorm, true, false>(a, e, live, count, p, lanes)
      : measure_as<kNorm, false, false>(a, e, live, count, p, lanes);
}

void Measure(const float* a, const float* e, const float* live, std::size_t count, Norm norm,
             float* p, Lanes& lanes) {
  norm == Norm::kL2 ? measure_norm<Norm::kL2>(a, e, live, count, p, lanes)
                    : measure_norm<Norm::kL1>(a, e, live, count, p, lanes);
}

// What a sign of `scale` leaves of `value`.
template <bool kGain, class D>
HWY_INLINE hn::Vec<D> residual_of(D d, hn::Vec<D> value, float scale, float gain) {
  const auto size = hn::Abs(hn::Set(d, scale));
  const auto left = hn::Sub(value, with_sign_of(value, size, hn::Neg(size)));
  if constexpr (kGain) return hn::Mul(left, hn::Set(d, gain));
  return left;
}

template <bool kMasked, bool kGain>
HWY_INLINE void code_as(const float* p, const float* live, std::size_t count, float scale,
                        float gain, float* e, std::uint8_t* bits) {
  for_each_bit(count, bits, [=](auto d, std::size_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, p + i);
    const auto residual = residual_of<kGain>(d, value, scale, gain);
    hn::StoreU(only_live<kMasked>(d, live, i, residual), d, e + i);
    // Dead elements are +0 where `measure` made p, but a caller's own p may hold anything there.
    return sign_mask(d, only_live<kMasked>(d, live, i, value));
  });
}

void Code(const float* p, const float* live, std::size_t count, float scale, float gain, float* e,
          std::uint8_t* bits) {
  if (live != nullptr) return code_as<true, true>(p, live, count, scale, gain, e, bits);
  gain == 1 ? code_as<false, false>(p, live, count, scale, gain, e, bits)
            : code_as<false, true>(p, live, count, scale, gain, e, bits);
}

// What signs are made of: p = a + e, and (p - C(p)) * gain goes to `left`.
struct Signing {
  Signing from(std::size_t i) const {
    return {a.from(i), e + i, live ? live + i : nullptr, gain, left + i};
  }
  Terms a;
  const float *e, *live;
  float gain;
  float* left;
};

// The magnitudes of a block into `lanes`, and its signs. Here all memory of this block and of the
// beginning of the next is asked for, each line once, and what is written too, since a store waits
// for its line as a load does. False: the terms are out of their bound.
template <Norm kNorm, bool kMasked, bool kTwo>
HWY_INLINE bool measure_signs(const Signing& of, std::size_t count, Lanes& lanes,
                              std::uint8_t* bits) {
  Bound bound;
  const auto sum = [&](auto d, std::size_t i) HWY_ATTR {
    if constexpr (kTwo)
      return bounded_sum_at(d, of.a, of.e, i, bound);
    else
      return sum_at<true, kMasked>(d, of.a, of.e, of.live, i);
  };
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Full d;
  constexpr std::size_t kVectors = 16 / kWidth;
  Vector sums[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) sums[k] = hn::Load(d, lanes.lane + k * kWidth);
  for (; i + 4 * kWidth <= count; i += 4 * kWidth) {
    for (std::size_t k = 0; k < 4 * kWidth; k += 16) {
      prefetch_page_ahead(of.a.a, i + k);
      if constexpr (kTwo) prefetch_page_ahead(of.a.b, i + k);
      prefetch_page_ahead(of.e, i + k);
    }
    hn::Mask<Full> four[4];
    for (std::size_t k = 0; k < 4; ++k) {
      const auto value = sum(d, i + k * kWidth);
      sums[k % kVectors] = hn::Add(sums[k % kVectors], magnitude<kNorm>(value));
      four[k] = sign_mask(d, value);
    }
    store_four(four, bits + i / 8);
  }
  for (std::size_t k = 0; k < kVectors; ++k) hn::Store(sums[k], d, lanes.lane + k * kWidth);
#endif
  for (const One one; i < count; ++i) {
    const auto value = sum(one, i);
    lanes.lane[i % 16] += hn::GetLane(magnitude<kNorm>(value));
    store_bits(one, sign_mask(one, value), bits, i);
  }
  clear_after(count, bits);
  return !kTwo || bound.holds();
}

template <bool kMasked, bool kTwo, bool kGain>
HWY_INLINE void leave_rest(const Signing& of, std::size_t count, float scale) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto value = sum_at<true, kMasked, kTwo>(d, of.a, of.e, of.live, i);
    const auto residual = residual_of<kGain>(d, value, scale, of.gain);
    hn::StoreU(only_live<kMasked>(d, of.live, i, residual), d, of.left + i);
  });
}

template <Norm kNorm, bool kMasked, bool kTwo, bool kGain>
HWY_INLINE std::size_t encode_blocks(const Signing& run, std::size_t count, std::size_t block,
                                     float* scales, std::uint8_t* bits) {
  for (std::size_t at = 0; at < count; at += block) {
    const std::size_t n = count - at < block ? count - at : block;
    const Signing of = run.from(at);
    Lanes lanes;
    if (!measure_signs<kNorm, kMasked, kTwo>(of, n, lanes, bits + at / 8)) return at;
    const float sum = fold(lanes);
    if (!(sum <= FLT_MAX)) return at;
    const float scale = scale_of(sum, kMasked ? kernels::count_live(of.live, n) : n, kNorm);
    leave_rest<kMasked, kTwo, kGain>(of, n, scale);
    scales[at / block] = scale;
  }
  return count;
}

template <Norm kNorm>
HWY_INLINE std::size_t encode_run(const Signing& run, std::size_t count, std::size_t block,
                                  float* scales, std::uint8_t* bits) {
  if (run.a.b != nullptr)
    return run.gain == 1
               ? encode_blocks<kNorm, false, true, false>(run, count, block, scales, bits)
               : encode_blocks<kNorm, false, true, true>(run, count, block, scales, bits);
  if (run.live != nullptr)
    return encode_blocks<kNorm, true, false, true>(run, count, block, scales, bits);
  return run.gain == 1
             ? encode_blocks<kNorm, false, false, false>(run, count, block, scales, bits)
             : encode_blocks<kNorm, false, false, true>(run, count, block, scales, bits);
}

std::size_t EncodeSigns(const Terms& a, const float* e, const float* live, std::size_t count,
                        std::size_t block, Norm norm, float gain, float* left, float* scales,
                        std::uint8_t* bits) {
  const Signing run{a, e, live, gain, left};
  return norm == Norm::kL2 ? encode_run<Norm::kL2>(run, count, block, scales, bits)
                           : encode_run<Norm::kL1>(run, count, block, scales, bits);
}

template <class D>
HWY_INLINE hn::Vec<D> signed_scale(D d, const Coded& coded, std::size_t i) {
  const auto s = hn::Abs(hn::Set(d, coded.scale));
  return hn::IfThenElse(load_bits(d, coded.bits, i), hn::Neg(s), s);
}

// Four vectors of them at once, as take(number, vector).
template <class Take>
HWY_INLINE void signed_scales(const Coded& coded, std::size_t i, const Take& take) {
  const auto s = hn::Abs(hn::Set(Full(), coded.scale));
  choose_by_bits(coded.bits, i, hn::Neg(s), s, take);
}

#if HWY_TARGET != HWY_SCALAR
// What the bits of up to four ranks add up to, in their order, times `factor`: a sum has 16 values in
// a block, whose bytes are looked up 16, 32 or 64 at a time.
template <int kCodes>
class SumTable {
  // Where a lane of bytes finds its bit. Interleaving works inside blocks of 16 bytes: a lane stands
  // for the element that comes out in order.
  struct Places {
    constexpr Places() {
      for (std::size_t j = 0; j < 4 * kWidth; ++j) {
        const std::size_t block = j / 16, k = j % 16, element = k / 4 * kWidth + block * 4 + k % 4;
        source[j] = static_cast<std::uint8_t>(element / 8);
        bit[j] = static_cast<std::uint8_t>(1U << (element % 8));
      }
    }
    alignas(64) std::uint8_t source[64] = {}, bit[64] = {};
  };

 public:
  SumTable(const Coded* coded, float factor) : coded_(coded) {
    for (unsigned index = 0; index < 16; ++index) {
      float total = 0;
      for (int r = 0; r < kCodes; ++r) {
        const float value = std::copysign(coded[r].scale, index >> r & 1 ? -1.0F : 1.0F);
        total = r == 0 ? value : total + value;
      }
      const auto bits = std::bit_cast<std::uint32_t>(total * factor);
      for (int k = 0; k < 4; ++k) byte_[k][index] = static_cast<std::uint8_t>(bits >> (8 * k));
    }
  }

  // Of elements i to i + 4 * kWidth, as take(number, vector).
  template <class Take>
  HWY_INLINE void at(std::size_t i, const Take& take) const {
    const hn::Repartition<std::uint8_t, Full> du8;
    const hn::Repartition<std::uint16_t, Full> du16;
    using Word = std::conditional_t<
        kWidth == 16, std::uint64_t,
        std::conditional_t<kWidth == 8, std::uint32_t, std::uint16_t>>;  // a bit for each element
    const hn::Repartition<Word, Full> dw;
    const Full d;
    static constexpr Places kPlaces;
    const auto source = hn::Load(du8, kPlaces.source), bit = hn::Load(du8, kPlaces.bit);
    auto index = hn::Zero(du8);
    for (int r = 0; r < kCodes; ++r) {
      Word word;
      std::memcpy(&word, coded_[r].bits + i / 8, sizeof word);
      const auto bytes = hn::TableLookupBytes(hn::BitCast(du8, hn::Set(dw, word)), source);
      const auto set = hn::TestBit(bytes, bit);
      index =
          hn::Or(index, hn::IfThenElseZero(set, hn::Set(du8, static_cast<std::uint8_t>(1U << r))));
    }
    const auto plane = [&](int k) HWY_ATTR {
      return hn::TableLookupBytes(hn::LoadDup128(du8, byte_[k]), index);
    };
    const auto b0 = plane(0), b1 = plane(1), b2 = plane(2), b3 = plane(3);
    const auto low01 = hn::BitCast(du16, hn::InterleaveLower(du8, b0, b1));
    const auto low23 = hn::BitCast(du16, hn::InterleaveLower(du8, b2, b3));
    const auto high01 = hn::BitCast(du16, hn::InterleaveUpper(du8, b0, b1));
    const auto high23 = hn::BitCast(du16, hn::InterleaveUpper(du8, b2, b3));
    take(0, hn::BitCast(d, hn::InterleaveLower(du16, low01, low23)));
    take(1, hn::BitCast(d, hn::InterleaveUpper(du16, low01, low23)));
    take(2, hn::BitCast(d, hn::InterleaveLower(du16, high01, high23)));
    take(3, hn::BitCast(d, hn::InterleaveUpper(du16, high01, high23)));
  }

 private:
  const Coded* coded_;
  alignas(16) std::uint8_t byte_[4][16];
};
#endif

// kCodes of the ranks by a table; kMore: the others are added one by one. The residual of the next
// block is asked for here, where there is more to compute per element than in `code`.
template <Norm kNorm, bool kMasked, int kCodes, bool kMore>
HWY_INLINE void serve_as(const Coded* coded, int codes, float factor, const float* e,
                         const float* live, std::size_t count, float* q, Lanes& lanes) {
  const auto finish = [=](auto d, std::size_t i, auto mean) HWY_ATTR {
    const auto value = only_live<kMasked>(d, live, i, hn::Add(mean, hn::LoadU(d, e + i)));
    hn::StoreU(value, d, q + i);
    return magnitude<kNorm>(value);
  };
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Full d;
  constexpr std::size_t kVectors = 16 / kWidth;
  const SumTable<kCodes> table(coded, kMore ? 1.0F : factor);
  Vector sums[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) sums[k] = hn::Load(d, lanes.lane + k * kWidth);
  for (; i + 4 * kWidth <= count; i += 4 * kWidth) {
    Vector total[4];
    for (std::size_t k = 0; k < 4 * kWidth; k += 16) prefetch_ahead(e, i + k);
    table.at(i, [&](std::size_t k, Vector value) HWY_ATTR { total[k] = value; });
    for (int r = kCodes; kMore && r < codes; ++r)
      signed_scales(coded[r], i, [&](std::size_t k, Vector value) HWY_ATTR {
        total[k] = hn::Add(total[k], value);
      });
    for (std::size_t k = 0; k < 4; ++k) {
      if constexpr (kMore) total[k] = hn::Mul(total[k], hn::Set(d, factor));
      sums[k % kVectors] = hn::Add(sums[k % kVectors], finish(d, i + k * kWidth, total[k]));
    }
  }
  for (std::size_t k = 0; k < kVectors; ++k) hn::Store(sums[k], d, lanes.lane + k * kWidth);
#endif
  for (; i < count; ++i) {
    auto total = signed_scale(One(), coded[0], i);
    for (int r = 1; r < codes; ++r) total = hn::Add(total, signed_scale(One(), coded[r], i));
    lanes.lane[i % 16] += hn::GetLane(finish(One(), i, hn::Mul(total, hn::Set(One(), factor))));
  }
}

template <Norm kNorm, bool kMasked>
HWY_INLINE void serve_codes(const Coded* coded, int codes, float factor, const float* e,
                            const float* live, std::size_t count, float* q, Lanes& lanes) {
  switch (codes) {
    case 1:
      return serve_as<kNorm, kMasked, 1, false>(coded, codes, factor, e, live, count, q, lanes);
    case 2:
      return serve_as<kNorm, kMasked, 2, false>(coded, codes, factor, e, live, count, q, lanes);
    case 3:
      return serve_as<kNorm, kMasked, 3, false>(coded, codes, factor, e, live, count, q, lanes);
    case 4:
      return serve_as<kNorm, kMasked, 4, false>(coded, codes, factor, e, live, count, q, lanes);
    default:
      return serve_as<kNorm, kMasked, 4, true>(coded, codes, factor, e, live, count, q, lanes);
  }
}

void Serve(const Coded* coded, int codes, float factor, const float* e, const float* live,
           std::size_t count, Norm norm, float* q, Lanes& lanes) {
  if (norm == Norm::kL2)
    live ? serve_codes<Norm::kL2, true>(coded, codes, factor, e, live, count, q, lanes)
         : serve_codes<Norm::kL2, false>(coded, codes, factor, e, live, count, q, lanes);
  else
    live ? serve_codes<Norm::kL1, true>(coded, codes, factor, e, live, count, q, lanes)
         : serve_codes<Norm::kL1, false>(coded, codes, factor, e, live, count, q, lanes);
}

void Decode(Coded coded, std::size_t count, float* out) {
  std::size_t i = 0;
  for (; i + 4 * kWidth <= count; i += 4 * kWidth)
    signed_scales(coded, i, [=](std::size_t k, Vector value) HWY_ATTR {
      hn::StoreU(value, Full(), out + i + k * kWidth);
    });
  for (; i < count; ++i) hn::StoreU(signed_scale(One(), coded, i), One(), out + i);
}

std::size_t CountLive(const float* live, std::size_t count) {
  std::size_t total = 0;
  for_each(count, [&](auto d, std::size_t i) HWY_ATTR {
    total += hn::CountTrue(d, hn::Not(hn::Eq(hn::LoadU(d, live + i), hn::Zero(d))));
  });
  return total;
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {

HWY_EXPORT(Measure);
HWY_EXPORT(Code);
HWY_EXPORT(EncodeSigns);
HWY_EXPORT(Serve);
HWY_EXPORT(Decode);
HWY_EXPORT(CountLive);

float fold(const Lanes& lanes) noexcept {
  float sum[16];
  for (int j = 0; j < 16; ++j) sum[j] = lanes.lane[j];
  for (int half = 8; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) sum[j] += sum[j + half];
  return sum[0];
}

float scale_of(float sum, std::size_t count, Norm norm) noexcept {
  if (count == 0) return 0;
  const float mean = sum / static_cast<float>(count);
  return norm == Norm::kL2 ? std::sqrt(mean) : mean;
}

void measure(const float* a, const float* e, const float* live, std::size_t count, Norm norm,
             float* p, Lanes& lanes) noexcept {
  HWY_DYNAMIC_DISPATCH(Measure)(a, e, live, count, norm, p, lanes);
}

void code(const float* p, const float* live, std::size_t count, float scale, float gain, float* e,
          std::uint8_t* bits) noexcept {
  HWY_DYNAMIC_DISPATCH(Code)(p, live, count, scale, gain, e, bits);
}

std::size_t encode_signs(const Terms& a, const float* e, const float* live, std::size_t count,
                         std::size_t block, Norm norm, float gain, float* left, float* scales,
                         std::uint8_t* bits) noexcept {
  return HWY_DYNAMIC_DISPATCH(EncodeSigns)(a, e, live, count, block, norm, gain, left, scales,
                                           bits);
}

void serve(const Coded* coded, int codes, float factor, const float* e, const float* live,
           std::size_t count, Norm norm, float* q, Lanes& lanes) noexcept {
  HWY_DYNAMIC_DISPATCH(Serve)(coded, codes, factor, e, live, count, norm, q, lanes);
}

void decode(Coded coded, std::size_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(Decode)(coded, count, out);
}

std::size_t count_live(const float* live, std::size_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(CountLive)(live, count);
}

}  // namespace laconic::kernels
#endif
