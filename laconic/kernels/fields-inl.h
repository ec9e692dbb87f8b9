// Fields of 8, 4 and 2 bits from lanes and back, compiled once for each target (Highway's -inl.h
// convention).
#if defined(LACONIC_KERNELS_FIELDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_FIELDS_INL_H_
#undef LACONIC_KERNELS_FIELDS_INL_H_
#else
#define LACONIC_KERNELS_FIELDS_INL_H_
#endif

#include "laconic/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

constexpr std::size_t kWord = 64;

template <int kBits>
constexpr std::size_t bytes_of(std::size_t elements) {
  return elements * kBits / 8;
}

// 4*kWidth codes, code(k) those of elements [k, k + kWidth) in the lowest bits of their lanes, as
// bytes in the order of elements; bits beyond `field` are 0.
template <class D, class Code>
HWY_INLINE hn::Vec<D> in_bytes(D d, std::uint32_t field, const Code& code) {
  const hn::Repartition<std::uint8_t, decltype(d)> d8;
  const auto keep = hn::Set(d, field);
  const auto low = hn::Or(hn::And(code(0), keep), hn::ShiftLeft<8>(hn::And(code(kWidth), keep)));
  const auto high = hn::Or(hn::ShiftLeft<16>(hn::And(code(2 * kWidth), keep)),
                           hn::ShiftLeft<24>(hn::And(code(3 * kWidth), keep)));
  // Byte b of lane l is element b*kWidth + l: a transposition, first inside 128 bits.
  alignas(16) static constexpr std::uint8_t kInside[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                           2, 6, 10, 14, 3, 7, 11, 15};
  const auto inside =
      hn::TableLookupBytes(hn::BitCast(d8, hn::Or(low, high)), hn::LoadDup128(d8, kInside));
  constexpr std::size_t kQuads = hn::MaxLanes(D()) / 4;
  HWY_ALIGN std::uint32_t lanes[kWidth];
  for (std::size_t k = 0; k < kWidth; ++k)
    lanes[k] = static_cast<std::uint32_t>(k % kQuads * 4 + k / kQuads);
  return hn::TableLookupLanes(hn::BitCast(d, inside), hn::SetTableIndices(d, lanes));
}

// Fields of 4*kWidth codes. Neighbours are moved together inside wider lanes, whose lowest byte
// then holds them.
template <int kBits, class D, class Code>
HWY_INLINE void write_fields(D d, std::uint8_t* to, const Code& code) {
  const auto bytes = in_bytes(d, (1U << kBits) - 1, code);
  if constexpr (kBits == 8) {
    const hn::Repartition<std::uint8_t, decltype(d)> d8;
    hn::StoreU(hn::BitCast(d8, bytes), d8, to);
  } else if constexpr (kBits == 4) {
    const hn::Repartition<std::uint16_t, decltype(d)> d16;
    const hn::Rebind<std::uint8_t, decltype(d16)> narrow;
    const auto pair = hn::BitCast(d16, bytes);
    hn::StoreU(hn::TruncateTo(narrow, hn::Or(pair, hn::ShiftRight<4>(pair))), narrow, to);
  } else {
    const hn::Rebind<std::uint8_t, decltype(d)> narrow;
    const auto four = hn::Or(hn::Or(bytes, hn::ShiftRight<6>(bytes)),
                             hn::Or(hn::ShiftRight<12>(bytes), hn::ShiftRight<18>(bytes)));
    hn::StoreU(hn::TruncateTo(narrow, four), narrow, to);
  }
}

// A word of fields to codes; as bytes they stand on the stack, aligned. Neighbours are moved inside
// wider lanes, without carries between them.
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

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
