#include "laconic/kernels/random_sign.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/random_sign.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "laconic/kernels/bf16-inl.h"
#include "laconic/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

constexpr std::size_t kWord = 64;
constexpr float kSmallestBound = 0x1p-100F;

#if HWY_TARGET == HWY_SCALAR
struct Schedule {
  explicit Schedule(const Draw&) {}
};

HWY_INLINE void word_of_pieces(const Draw& draw, const Schedule&, std::uint64_t begin,
                               std::uint16_t* pieces) {
  for (std::uint32_t k = 0; k < 8; ++k) {
    const auto bits = philox({static_cast<std::uint32_t>(draw.stream), draw.rank, draw.bucket,
                              static_cast<std::uint32_t>(begin / 8) + k},
                             draw.key);
    std::memcpy(pieces + 8 * k, bits.data(), 16);
  }
}
#else
// The keys of the ten rounds, one a lane, ready to be loaded. Stored by hand: g++ 12 -O3 makes wrong
// keys of a plain loop when it vectorises it for SSE4 and AVX2.
struct Schedule {
  explicit Schedule(const Draw& draw) {
    const hn::CappedTag<std::uint64_t, 8> d;
    std::uint32_t first = draw.key[0], second = draw.key[1];
    for (auto& round : keys) {
      hn::Store(hn::Set(d, std::uint64_t{first}), d, round[0]);
      hn::Store(hn::Set(d, std::uint64_t{second}), d, round[1]);
      first += kPhiloxWeyl0;
      second += kPhiloxWeyl1;
    }
  }
  HWY_ALIGN std::uint64_t keys[10][2][8];
};

// The 64 random pieces of one word: Philox on 8 counters. A counter's words sit in the low halves
// of 64-bit lanes, so that one widening multiplication gives both halves of a product; what gathers
// in the high halves is never read.
HWY_INLINE void word_of_pieces(const Draw& draw, const Schedule& schedule, std::uint64_t begin,
                               std::uint16_t* pieces) {
  const hn::CappedTag<std::uint64_t, 8> d;
  const hn::Repartition<std::uint32_t, decltype(d)> dw;
  constexpr std::size_t kCounters = hn::MaxLanes(decltype(d)());
  const auto product = [=](auto a, std::uint32_t b)
                           HWY_ATTR { return hn::MulEven(hn::BitCast(dw, a), hn::Set(dw, b)); };
  static constexpr std::uint64_t kLane[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto lane = hn::LoadU(d, kLane);
  const auto first = static_cast<std::uint32_t>(begin / 8);
  auto* out = reinterpret_cast<std::uint64_t*>(pieces);
  for (std::size_t k = 0; k < 8; k += kCounters) {
    auto c0 = hn::Set(d, static_cast<std::uint64_t>(draw.stream));
    auto c1 = hn::Set(d, std::uint64_t{draw.rank});
    auto c2 = hn::Set(d, std::uint64_t{draw.bucket});
    auto c3 = hn::Add(lane, hn::Set(d, std::uint64_t{first} + k));
    for (const auto& key : schedule.keys) {
      const auto a = product(c0, kPhiloxMultiplier0);
      const auto b = product(c2, kPhiloxMultiplier1);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), c1), hn::Load(d, key[0]));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), c3), hn::Load(d, key[1]));
      c1 = b;
      c3 = a;
    }
    const auto low = hn::OddEven(hn::BitCast(dw, hn::ShiftLeft<32>(c1)), hn::BitCast(dw, c0));
    const auto high = hn::OddEven(hn::BitCast(dw, hn::ShiftLeft<32>(c3)), hn::BitCast(dw, c2));
    hn::StoreInterleaved2(hn::BitCast(d, low), hn::BitCast(d, high), d, out + 2 * k);
  }
}
#endif

// m > s*b, or s < 0 where they are equal; s = piece/32768 - 1 + 1/65536, which is exact however it
// is computed.
template <class D>
HWY_INLINE hn::Mask<D> drawn(D d, const std::uint16_t* pieces, hn::Vec<D> m, hn::Vec<D> b) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint16_t, D> dh;
  const auto piece = hn::PromoteTo(di, hn::LoadU(dh, pieces));
  const auto centred = hn::Sub(hn::ShiftLeft<1>(piece), hn::Set(di, 65535));
  const auto s = hn::Mul(hn::ConvertTo(d, centred), hn::Set(d, 1.0F / 65536.0F));
  const auto threshold = hn::Mul(s, b);
  const auto tie = hn::And(hn::Eq(m, threshold), hn::Lt(s, hn::Zero(d)));
  return hn::Or(hn::Gt(m, threshold), tie);
}

// Draws one word from what value(d, i) and bound(d, i) give.
template <class Value, class Bound>
HWY_INLINE void draw_word(const Draw& draw, const Schedule& schedule, std::uint64_t begin,
                          std::size_t count, const Value& value, const Bound& bound,
                          std::uint8_t* bits) {
  HWY_ALIGN std::uint16_t pieces[kWord];
  word_of_pieces(draw, schedule, begin, pieces);
  for_each(count, [&](auto d, std::size_t i) HWY_ATTR {
    store_bits(d, drawn(d, pieces + i, value(d, i), bound(d, i)), bits, i);
  });
  clear_tail(count, bits);
}

// step(word, begin of the word, elements in it) for each word of `count` elements.
template <class Step>
HWY_INLINE void for_each_word(std::size_t count, const Step& step) {
  for (std::size_t w = 0; w * kWord < count; ++w)
    step(w, w * kWord, HWY_MIN(kWord, count - w * kWord));
}

template <class Bound>
HWY_INLINE void draw_all(const Draw& draw, std::uint64_t begin, const float* m, std::size_t count,
                         std::uint8_t* bits, const Bound& bound) {
  const Schedule schedule(draw);
  for_each_word(count, [&](std::size_t w, std::size_t at, std::size_t n) HWY_ATTR {
    draw_word(
        draw, schedule, begin + at, n,
        [&](auto d, std::size_t i) HWY_ATTR { return hn::LoadU(d, m + at + i); },
        [&](auto d, std::size_t i) HWY_ATTR { return bound(d, at + i); }, bits + w * 8);
  });
}

void DrawSigns(const Draw& draw, std::uint64_t begin, const float* m, const float* b,
               std::size_t count, std::uint8_t* bits) {
  if (b != nullptr)
    draw_all(draw, begin, m, count, bits,
             [=](auto d, std::size_t i) HWY_ATTR { return hn::LoadU(d, b + i); });
  else
    draw_all(draw, begin, m, count, bits,
             [](auto d, std::size_t) HWY_ATTR { return hn::Set(d, 1.0F); });
}

// Whether any of the values that `load` gives in a word is not 0.
template <class Load>
HWY_INLINE bool any_nonzero(std::size_t count, const Load& load) {
  auto seen = hn::Zero(Full());
  bool tail = false;
  for_each(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto size = hn::Abs(load(d, i));
    if constexpr (hn::MaxLanes(decltype(d)()) == kWidth)
      seen = hn::Or(seen, size);
    else
      tail |= hn::GetLane(size) != 0;
  });
  const hn::RebindToUnsigned<Full> du;
  return tail || !hn::AllTrue(du, hn::Eq(hn::BitCast(du, seen), hn::Zero(du)));
}

std::uint64_t BirderMomentsStep(const BirderMoments& s, const float* g, float* m, float* b,
                                std::size_t count, const Draw& draw, std::uint64_t begin,
                                std::uint64_t wanted, std::uint8_t* bits) {
  const Schedule schedule(draw);
  std::uint64_t active = 0;
  for_each_word(count, [&](std::size_t w, std::size_t at, std::size_t n) HWY_ATTR {
    const bool any = any_nonzero(n, [&](auto d, std::size_t i) HWY_ATTR {
      const auto keep = hn::Set(d, s.beta), take = hn::Set(d, s.one_minus_beta);
      for (const float* stream : {g, static_cast<const float*>(m), static_cast<const float*>(b)})
        prefetch_ahead(stream + at + i);
      const auto gradient = hn::LoadU(d, g + at + i);
      const auto size = hn::Abs(gradient);
      auto mean = hn::Add(hn::Mul(keep, hn::LoadU(d, m + at + i)), hn::Mul(take, gradient));
      auto bound = hn::Add(hn::Mul(keep, hn::LoadU(d, b + at + i)), hn::Mul(take, size));
      const auto gone = hn::Lt(bound, hn::Set(d, kSmallestBound));
      hn::StoreU(hn::IfThenZeroElse(gone, mean), d, m + at + i);
      hn::StoreU(hn::IfThenZeroElse(gone, bound), d, b + at + i);
      return gradient;
    });
    active |= std::uint64_t{any} << w;
    if ((wanted >> w & 1) != 0)
      draw_word(
          draw, schedule, begin + at, n,
          [&](auto d, std::size_t i) HWY_ATTR { return hn::LoadU(d, m + at + i); },
          [&](auto d, std::size_t i) HWY_ATTR { return hn::LoadU(d, b + at + i); }, bits + w * 8);
  });
  return active;
}

// The count of +1 at elements i.. of a word, from its bit planes.
template <class D>
HWY_INLINE hn::Vec<D> count_at(D d, const std::uint8_t* planes, int number, std::size_t i) {
  auto total = hn::Zero(d);
  for (int j = 0; j < number; ++j) {
    const auto weight = hn::Set(d, static_cast<float>(1 << j));
    total = hn::Add(total, hn::IfThenElseZero(load_bits(d, planes + j * 8, i), weight));
  }
  return total;
}

void Redraw(const Draw& draw, std::uint64_t begin, const std::uint8_t* counts,
            const std::uint16_t* voters, int planes, std::size_t count, std::uint8_t* bits) {
  const Schedule schedule(draw);
  for_each_word(count, [&](std::size_t w, std::size_t at, std::size_t n) HWY_ATTR {
    const auto voting = static_cast<float>(voters[w]);
    const std::uint8_t* of_word = counts + w * static_cast<std::size_t>(planes) * 8;
    if (voters[w] == 0) return std::memset(bits + w * 8, 0, 8), void();
    draw_word(
        draw, schedule, begin + at, n,
        [&](auto d, std::size_t i) HWY_ATTR {
          const auto c = count_at(d, of_word, planes, i);
          return hn::Sub(hn::Add(c, c), hn::Set(d, voting));
        },
        [&](auto d, std::size_t) HWY_ATTR { return hn::Set(d, voting); }, bits + w * 8);
  });
}

void SignsToFloats(const std::uint8_t* bits, const std::uint8_t* active, std::size_t count,
                   float* out) {
  for_each_word(count, [&](std::size_t w, std::size_t at, std::size_t n) HWY_ATTR {
    const float unit = (active[w / 8] >> (w % 8) & 1) != 0 ? 1.0F : 0.0F;
    for_each(n, [&](auto d, std::size_t i) HWY_ATTR {
      // 0 - unit, not -unit: an inactive word is +0 throughout.
      const auto minus = hn::Sub(hn::Zero(d), hn::Set(d, unit));
      const auto sign = load_bits(d, bits + w * 8, i);
      hn::StoreU(hn::IfThenElse(sign, hn::Set(d, unit), minus), d, out + at + i);
    });
  });
}

void CountsToFloats(const std::uint8_t* counts, const std::uint16_t* voters, int planes,
                    std::size_t count, float* out) {
  for_each_word(count, [&](std::size_t w, std::size_t at, std::size_t n) HWY_ATTR {
    const std::uint8_t* of_word = counts + w * static_cast<std::size_t>(planes) * 8;
    const auto voting = static_cast<float>(voters[w]);
    for_each(n, [&](auto d, std::size_t i) HWY_ATTR {
      const auto c = count_at(d, of_word, planes, i);
      const auto r = hn::Sub(hn::Div(hn::Add(c, c), hn::Set(d, voting)), hn::Set(d, 1.0F));
      hn::StoreU(voters[w] == 0 ? hn::Zero(d) : r, d, out + at + i);
    });
  });
}

template <bool kBound, class Store>
HWY_INLINE void ratio_as(const float* m, const float* b, std::size_t count, const Store& store) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    auto u = hn::LoadU(d, m + i);
    if constexpr (kBound) {
      const auto bound = hn::LoadU(d, b + i);
      u = hn::IfThenZeroElse(hn::Eq(bound, hn::Zero(d)), hn::Div(u, bound));
    }
    const auto least = hn::Set(d, -1.0F), most = hn::Set(d, 1.0F);
    const auto raised = hn::IfThenElse(hn::Lt(u, least), least, u);
    store(d, hn::IfThenElse(hn::Gt(raised, most), most, raised), i);
  });
}

template <class Store>
HWY_INLINE void ratio_to(const float* m, const float* b, std::size_t count, const Store& store) {
  b ? ratio_as<true>(m, b, count, store) : ratio_as<false>(m, b, count, store);
}

void RatioToBf16(const float* m, const float* b, std::size_t count, std::uint16_t* out) {
  ratio_to(m, b, count, [=](auto d, auto u, std::size_t i) HWY_ATTR { store_bf16(d, u, out + i); });
}

void Ratio(const float* m, const float* b, std::size_t count, float* out) {
  ratio_to(m, b, count, [=](auto d, auto u, std::size_t i) HWY_ATTR { hn::StoreU(u, d, out + i); });
}

std::uint64_t Activity(const float* values, std::size_t count) {
  std::uint64_t active = 0;
  for_each_word(count, [&](std::size_t w, std::size_t at, std::size_t n) HWY_ATTR {
    const bool any = any_nonzero(
        n, [&](auto d, std::size_t i) HWY_ATTR { return hn::LoadU(d, values + at + i); });
    active |= std::uint64_t{any} << w;
  });
  return active;
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {

HWY_EXPORT(DrawSigns);
HWY_EXPORT(BirderMomentsStep);
HWY_EXPORT(Redraw);
HWY_EXPORT(SignsToFloats);
HWY_EXPORT(CountsToFloats);
HWY_EXPORT(RatioToBf16);
HWY_EXPORT(Ratio);
HWY_EXPORT(Activity);

void draw(const Draw& draw, std::uint64_t begin, const float* m, const float* b, std::size_t count,
          std::uint8_t* bits) noexcept {
  HWY_DYNAMIC_DISPATCH(DrawSigns)(draw, begin, m, b, count, bits);
}
std::uint64_t birder_moments(const BirderMoments& step, const float* g, float* m, float* b,
                             std::size_t count, const Draw& draw, std::uint64_t begin,
                             std::uint64_t wanted, std::uint8_t* bits) noexcept {
  return HWY_DYNAMIC_DISPATCH(BirderMomentsStep)(step, g, m, b, count, draw, begin, wanted, bits);
}
void redraw(const Draw& draw, std::uint64_t begin, const std::uint8_t* counts,
            const std::uint16_t* voters, int planes, std::size_t count,
            std::uint8_t* bits) noexcept {
  HWY_DYNAMIC_DISPATCH(Redraw)(draw, begin, counts, voters, planes, count, bits);
}
void signs_to_floats(const std::uint8_t* bits, const std::uint8_t* active, std::size_t count,
                     float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(SignsToFloats)(bits, active, count, out);
}
void counts_to_floats(const std::uint8_t* counts, const std::uint16_t* voters, int planes,
                      std::size_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(CountsToFloats)(counts, voters, planes, count, out);
}
void ratio_to_bf16(const float* m, const float* b, std::size_t count, std::uint16_t* out) noexcept {
  HWY_DYNAMIC_DISPATCH(RatioToBf16)(m, b, count, out);
}
void ratio(const float* m, const float* b, std::size_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(Ratio)(m, b, count, out);
}
std::uint64_t activity(const float* values, std::size_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(Activity)(values, count);
}

// Bit-sliced addition: 64 counters at once, no vectors needed.
void count_signs(const std::uint8_t* const* bits, const std::uint8_t* const* active, int ranks,
                 std::size_t words, std::uint8_t* counts, std::uint16_t* voters) noexcept {
  const int planes = planes_of(ranks);
  for (std::size_t w = 0; w < words; ++w) {
    std::uint64_t plane[16] = {};
    std::uint16_t voting = 0;
    for (int r = 0; r < ranks; ++r) {
      if ((active[r][w / 8] >> (w % 8) & 1) == 0) continue;
      ++voting;
      std::uint64_t carry;
      std::memcpy(&carry, bits[r] + w * 8, 8);
      for (int j = 0; j < planes; ++j) {
        const std::uint64_t next = plane[j] & carry;
        plane[j] ^= carry;
        carry = next;
      }
    }
    voters[w] = voting;
    std::memcpy(counts + w * static_cast<std::size_t>(planes) * 8, plane,
                static_cast<std::size_t>(planes) * 8);
  }
}

}  // namespace laconic::kernels
#endif
