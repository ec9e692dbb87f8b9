#include "laconic/kernels/integer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/integer.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "laconic/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// Codes of so many elements pass through bytes on the stack, which are packed a word at a time.
constexpr std::size_t kRun = 256;
constexpr std::size_t kWord = 64;

template <int kBits>
constexpr std::size_t bytes_of(std::size_t elements) {
  return elements * kBits / 8;
}

template <bool kFeedback, bool kMasked>
HWY_INLINE void measure_as(const float* a, const float* e, const float* live, std::size_t count,
                           float* p, Lanes& lanes) {
  find_largest(count, lanes, [=](auto d, std::size_t i) HWY_ATTR {
    prefetch_next_tile(a + i);
    auto value = hn::LoadU(d, a + i);
    if constexpr (kFeedback) value = hn::Add(value, hn::LoadU(d, e + i));
    value = only_live<kMasked>(d, live, i, value);
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

// A word of codes to fields and back; as bytes they stand on the stack, aligned. Neighbours are
// moved inside wider lanes, without carries between them.
HWY_INLINE void pack_4(const std::int8_t* from, std::uint8_t* to) {
  const hn::CappedTag<std::uint16_t, 32> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint8_t, decltype(d)> narrow;
  const auto* pairs = reinterpret_cast<const std::uint16_t*>(from);
  for (std::size_t k = 0; k < 32; k += hn::MaxLanes(d)) {
    const auto pair = hn::LoadU(d, pairs + k);
    const auto low = hn::And(pair, hn::Set(d, std::uint16_t{0x000F}));
    const auto high = hn::And(hn::ShiftRight<4>(pair), hn::Set(d, std::uint16_t{0x00F0}));
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(di, hn::Or(low, high))), narrow, to + k);
  }
}

HWY_INLINE void pack_2(const std::int8_t* from, std::uint8_t* to) {
  const hn::CappedTag<std::uint32_t, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint8_t, decltype(d)> narrow;
  const auto* fours = reinterpret_cast<const std::uint32_t*>(from);
  for (std::size_t k = 0; k < 16; k += hn::MaxLanes(d)) {
    const auto four = hn::LoadU(d, fours + k);
    const auto first = hn::Or(hn::And(four, hn::Set(d, 0x03U)),
                              hn::And(hn::ShiftRight<6>(four), hn::Set(d, 0x0CU)));
    const auto last = hn::Or(hn::And(hn::ShiftRight<12>(four), hn::Set(d, 0x30U)),
                             hn::And(hn::ShiftRight<18>(four), hn::Set(d, 0xC0U)));
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(di, hn::Or(first, last))), narrow, to + k);
  }
}

// A field's highest bit is spread over the rest of its byte: 8 * (32 - 2) is 0xF0, 2 * (128 - 2)
// is 0xFC.
HWY_INLINE void unpack_4(const std::uint8_t* from, std::int8_t* to) {
  const hn::CappedTag<std::uint16_t, 32> d;
  const hn::Rebind<std::uint8_t, decltype(d)> narrow;
  auto* pairs = reinterpret_cast<std::uint16_t*>(to);
  for (std::size_t k = 0; k < 32; k += hn::MaxLanes(d)) {
    const auto both = hn::PromoteTo(d, hn::LoadU(narrow, from + k));
    const auto apart =
        hn::And(hn::Or(both, hn::ShiftLeft<4>(both)), hn::Set(d, std::uint16_t{0x0F0F}));
    const auto sign = hn::And(apart, hn::Set(d, std::uint16_t{0x0808}));
    const auto rest = hn::Sub(hn::ShiftLeft<5>(sign), hn::ShiftLeft<1>(sign));
    hn::StoreU(hn::Or(apart, rest), d, pairs + k);
  }
}

HWY_INLINE void unpack_2(const std::uint8_t* from, std::int8_t* to) {
  const hn::CappedTag<std::uint32_t, 16> d;
  const hn::Rebind<std::uint8_t, decltype(d)> narrow;
  auto* fours = reinterpret_cast<std::uint32_t*>(to);
  for (std::size_t k = 0; k < 16; k += hn::MaxLanes(d)) {
    const auto all = hn::PromoteTo(d, hn::LoadU(narrow, from + k));
    const auto apart = hn::And(hn::Or(hn::Or(all, hn::ShiftLeft<6>(all)),
                                      hn::Or(hn::ShiftLeft<12>(all), hn::ShiftLeft<18>(all))),
                               hn::Set(d, 0x03030303U));
    const auto sign = hn::And(apart, hn::Set(d, 0x02020202U));
    const auto rest = hn::Sub(hn::ShiftLeft<7>(sign), hn::ShiftLeft<1>(sign));
    hn::StoreU(hn::Or(apart, rest), d, fours + k);
  }
}

// A run's codes as bytes: in the message itself where they are bytes there.
template <int kBits>
HWY_INLINE const std::int8_t* unpacked(const std::uint8_t* from, std::size_t count,
                                       std::int8_t* bytes) {
  if constexpr (kBits == 8) return reinterpret_cast<const std::int8_t*>(from);
  for (std::size_t k = 0; k < count; k += kWord) {
    if constexpr (kBits == 4) unpack_4(from + bytes_of<4>(k), bytes + k);
    if constexpr (kBits == 2) unpack_2(from + bytes_of<2>(k), bytes + k);
  }
  return bytes;
}

// work(begin, count) for the runs of `count` elements.
template <class Work>
HWY_INLINE void for_each_run(std::size_t count, const Work& work) {
  for (std::size_t at = 0; at < count; at += kRun) work(at, count - at < kRun ? count - at : kRun);
}

template <int kBits, bool kMasked>
HWY_INLINE void encode_as(const float* p, const float* live, std::size_t count, float scale,
                          float gain, float* e, std::uint8_t* codes) {
  const float inverse = inverse_scale(scale);
  constexpr auto kLargest = static_cast<float>(largest_code(kBits));
  for_each_run(count, [=](std::size_t begin, std::size_t n) HWY_ATTR {
    HWY_ALIGN std::int8_t scratch[kRun];
    std::uint8_t* to = codes + bytes_of<kBits>(begin);
    std::int8_t* bytes = kBits == 8 ? reinterpret_cast<std::int8_t*>(to) : scratch;
    for_each(n, [=](auto d, std::size_t k) HWY_ATTR {
      const hn::RebindToSigned<decltype(d)> di;
      const hn::Rebind<std::int8_t, decltype(d)> d8;
      const std::size_t i = begin + k;
      const auto value = hn::LoadU(d, p + i);
      const auto bounded =
          hn::Min(hn::Max(hn::Mul(value, hn::Set(d, inverse)), hn::Set(d, -kLargest)),
                  hn::Set(d, kLargest));
      // Dead elements are 0 where `measure_largest` made p, but a caller's own p may hold anything.
      const auto code = hn::NearestInt(only_live<kMasked>(d, live, i, bounded));
      const auto decoded = hn::Mul(hn::ConvertTo(d, code), hn::Set(d, scale));
      const auto residual = hn::Mul(hn::Sub(value, decoded), hn::Set(d, gain));
      prefetch_next_tile(e + i);
      hn::StoreU(only_live<kMasked>(d, live, i, residual), d, e + i);
      hn::StoreU(hn::DemoteTo(d8, hn::BitCast(di, code)), d8, bytes + k);
    });
    const std::size_t whole = (n + kWord - 1) / kWord * kWord;
    for (std::size_t k = n; k < whole; ++k) bytes[k] = 0;
    for (std::size_t k = 0; k < whole; k += kWord) {
      if constexpr (kBits == 4) pack_4(bytes + k, to + bytes_of<4>(k));
      if constexpr (kBits == 2) pack_2(bytes + k, to + bytes_of<2>(k));
    }
  });
}

template <int kBits>
HWY_INLINE void encode(const float* p, const float* live, std::size_t count, float scale,
                       float gain, float* e, std::uint8_t* codes) {
  live ? encode_as<kBits, true>(p, live, count, scale, gain, e, codes)
       : encode_as<kBits, false>(p, live, count, scale, gain, e, codes);
}

void ToIntegers(const float* p, const float* live, std::size_t count, int bits, float scale,
                float gain, float* e, std::uint8_t* codes) {
  bits == 8   ? encode<8>(p, live, count, scale, gain, e, codes)
  : bits == 4 ? encode<4>(p, live, count, scale, gain, e, codes)
              : encode<2>(p, live, count, scale, gain, e, codes);
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

void sum_integers(const Integers* from, int ranks, int bits, float factor, const float* e,
                  const float* live, std::size_t count, float* q, Lanes& lanes) noexcept {
  HWY_DYNAMIC_DISPATCH(SumIntegers)(from, ranks, bits, factor, e, live, count, q, lanes);
}

void from_integers(Integers from, int bits, std::size_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(FromIntegers)(from, bits, count, out);
}

}  // namespace laconic::kernels
#endif
