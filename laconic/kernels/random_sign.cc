#include "laconic/kernels/random_sign.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/random_sign.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "laconic/kernels/bf16-inl.h"
#include "laconic/kernels/words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

constexpr float kSmallestBound = 0x1p-100F;

#if HWY_TARGET == HWY_SCALAR
// Random pieces of 64 elements at a time.
class Pieces {
 public:
  explicit Pieces(const Draw& draw) : draw_(draw) {}
  const std::uint16_t* of_word(std::uint64_t begin) {
    for (std::uint32_t k = 0; k < 8; ++k) {
      const auto bits = philox({static_cast<std::uint32_t>(draw_.stream), draw_.rank, draw_.bucket,
                                static_cast<std::uint32_t>(begin / 8) + k},
                               draw_.key);
      std::memcpy(pieces_ + 8 * k, bits.data(), 16);
    }
    return pieces_;
  }

 private:
  Draw draw_;
  std::uint16_t pieces_[kWord];
};
#else
// What the rounds take beside the state, once per lane, ready to be loaded. The first three words
// of a counter are the same for a whole draw, so most of the first three rounds is done here. Stored
// by hand: g++ 12 -O3 makes wrong keys of a plain loop when it vectorises it for SSE4 and AVX2.
struct Schedule {
  static constexpr std::size_t kFirst = 4, kPairs = (10 - kFirst) / 2;  // of rounds done in full

  explicit Schedule(const Draw& draw) {
    const hn::CappedTag<std::uint64_t, 8> d;
    const auto store = [=](std::uint64_t value, std::uint64_t* to)
                           HWY_ATTR { hn::Store(hn::Set(d, value), d, to); };
    const auto product = [](std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} * b; };
    const auto high = [](std::uint64_t a) { return static_cast<std::uint32_t>(a >> 32); };
    const auto low = [](std::uint64_t a) { return static_cast<std::uint32_t>(a); };
    std::uint32_t key0[10], key1[10];
    for (std::uint32_t r = 0; r < 10; ++r) {
      key0[r] = draw.key[0] + r * kPhiloxWeyl0;
      key1[r] = draw.key[1] + r * kPhiloxWeyl1;
    }
    const std::uint64_t a0 = product(static_cast<std::uint32_t>(draw.stream), kPhiloxMultiplier0);
    const std::uint64_t b0 = product(draw.bucket, kPhiloxMultiplier1);
    const std::uint64_t a1 = product(high(b0) ^ draw.rank ^ key0[0], kPhiloxMultiplier0);
    const std::uint64_t b2 = product(high(a1) ^ low(a0) ^ key1[1], kPhiloxMultiplier1);
    store(high(a0) ^ key1[0], first);
    store(low(b0) ^ key0[1], second);
    store(high(b2) ^ key0[2], third[0]);
    store(low(a1) ^ key1[2], third[1]);
    store(low(b2) ^ key0[3], fourth[0]);
    store(key1[3], fourth[1]);
    for (std::size_t r = kFirst; r < 10; r += 2) {
      store(std::uint64_t{key0[r]} << 32 | key0[r + 1], keys[(r - kFirst) / 2][0]);
      store(std::uint64_t{key1[r]} << 32 | key1[r + 1], keys[(r - kFirst) / 2][1]);
    }
  }
  HWY_ALIGN std::uint64_t first[8], second[8], third[2][8], fourth[2][8];
  HWY_ALIGN std::uint64_t keys[kPairs][2][8];
};

// Philox on the counters first, first + 1, …, kGroups vectors of them: their rounds interleave,
// since each waits for its own products. A counter's words sit in the low halves of 64-bit lanes, so
// that one widening multiplication gives both halves of a product; what gathers in the high halves
// is never read. The last round puts two words into each lane. Counters are dealt to the lanes such
// that two interleaved vectors hold them in order.
template <std::size_t kGroups>
HWY_INLINE void draw_counters(const Schedule& schedule, std::uint32_t first, std::uint64_t* out) {
  const hn::CappedTag<std::uint64_t, 8> d;
  const hn::Repartition<std::uint32_t, decltype(d)> dw;
  using V = hn::Vec<decltype(d)>;
  constexpr std::size_t kCounters = hn::MaxLanes(decltype(d)());
  const auto product = [=](V a, std::uint32_t b)
                           HWY_ATTR { return hn::MulEven(hn::BitCast(dw, a), hn::Set(dw, b)); };
  const auto high = [](V a) HWY_ATTR { return hn::ShiftRight<32>(a); };
  const auto low = [=](V a) HWY_ATTR { return hn::And(a, hn::Set(d, 0xFFFFFFFF)); };
  const auto swapped = [=](V a) HWY_ATTR {
    return hn::BitCast(d, hn::Reverse2(dw, hn::BitCast(dw, a)));
  };
  const auto load = [=](const std::uint64_t* from) HWY_ATTR { return hn::Load(d, from); };
  const auto each = [](const auto& work) HWY_ATTR {
    for (std::size_t g = 0; g < kGroups; ++g) work(g);
  };
  static constexpr std::uint64_t kLane[][8] = {{0, 1}, {0, 2, 1, 3}, {0, 4, 1, 5, 2, 6, 3, 7}};
  V c0[kGroups], c1[kGroups], c2[kGroups], c3[kGroups];
  each([&](std::size_t g) HWY_ATTR {
    const auto counter = hn::Add(hn::LoadU(d, kLane[kCounters / 4]),
                                 hn::Set(d, std::uint64_t{first} + g * kCounters));
    const V b = product(hn::Xor(counter, load(schedule.first)), kPhiloxMultiplier1);
    const V a = product(hn::Xor(high(b), load(schedule.second)), kPhiloxMultiplier0);
    c0[g] = hn::Xor(b, load(schedule.third[0]));
    c2[g] = hn::Xor(high(a), load(schedule.third[1]));
    c3[g] = a;
  });
  each([&](std::size_t g) HWY_ATTR {
    const V a = product(c0[g], kPhiloxMultiplier0), b = product(c2[g], kPhiloxMultiplier1);
    c0[g] = hn::Xor(high(b), load(schedule.fourth[0]));
    c2[g] = hn::Xor3(high(a), c3[g], load(schedule.fourth[1]));
    c1[g] = b;
    c3[g] = a;
  });
  // The low half of a product meets the high half of the next round's: one addition in every other
  // round brings the keys of both.
  const auto round = [&](std::size_t g, V a, V b) HWY_ATTR {
    c0[g] = hn::Xor(high(b), c1[g]);
    c2[g] = hn::Xor(high(a), c3[g]);
    c1[g] = b;
    c3[g] = a;
  };
  for (std::size_t pair = 0; pair < Schedule::kPairs; ++pair) {
    each([&](std::size_t g) HWY_ATTR {
      round(g, hn::Xor(product(c0[g], kPhiloxMultiplier0), load(schedule.keys[pair][1])),
            hn::Xor(product(c2[g], kPhiloxMultiplier1), load(schedule.keys[pair][0])));
    });
    if (pair + 1 < Schedule::kPairs)
      each([&](std::size_t g) HWY_ATTR {
        round(g, product(c0[g], kPhiloxMultiplier0), product(c2[g], kPhiloxMultiplier1));
      });
  }
  each([&](std::size_t g) HWY_ATTR {
    const V a = product(c0[g], kPhiloxMultiplier0), b = product(c2[g], kPhiloxMultiplier1);
    const V c01 = hn::Xor(swapped(b), low(c1[g])), c23 = hn::Xor(swapped(a), low(c3[g]));
    std::uint64_t* to = out + 2 * g * kCounters;
    hn::Store(hn::InterleaveLower(d, c01, c23), d, to);
    hn::Store(hn::InterleaveUpper(d, c01, c23), d, to + kCounters);
  });
}

// Random pieces, 64 for each word. Four vectors of counters at once, up to four words: a CPU would
// wait for the products of fewer.
class Pieces {
 public:
  explicit Pieces(const Draw& draw) : schedule_(draw) {}
  // Of the word that begins with element `begin`, until the next call.
  HWY_INLINE const std::uint16_t* of_word(std::uint64_t begin) {
    if (begin - begin_ >= kElements) {
      begin_ = begin;
      draw_counters<kGroups>(schedule_, static_cast<std::uint32_t>(begin / 8),
                             reinterpret_cast<std::uint64_t*>(pieces_));
    }
    return pieces_ + (begin - begin_);
  }

 private:
  static constexpr std::size_t kGroups = 4;
  static constexpr std::size_t kElements =
      8 * kGroups * hn::MaxLanes(hn::CappedTag<std::uint64_t, 8>());

  const Schedule schedule_;
  std::uint64_t begin_ = ~std::uint64_t{0} / 2;  // of the first piece; no word begins there
  HWY_ALIGN std::uint16_t pieces_[kElements];
};
#endif

// m > s*b, or s < 0 where they are equal; s = piece/32768 - 1 + 1/65536, which is exact whether or
// not a CPU has one instruction for it.
template <class D>
HWY_INLINE hn::Mask<D> drawn(D d, const std::uint16_t* pieces, hn::Vec<D> m, hn::Vec<D> b) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint16_t, D> dh;
  const auto piece = hn::PromoteTo(di, hn::LoadU(dh, pieces));
  const auto s = hn::MulAdd(hn::ConvertTo(d, piece), hn::Set(d, 0x1p-15F), hn::Set(d, 0x1p-16F - 1));
  const auto threshold = hn::Mul(s, b);
  const auto greater = hn::Gt(m, threshold);
#if HWY_TARGET <= HWY_AVX3  // masks are no vectors
  return hn::Or(greater, hn::And(hn::Eq(m, threshold), hn::Lt(s, hn::Zero(d))));
#else
  const auto not_less = hn::VecFromMask(d, hn::Ge(m, threshold));
  return hn::MaskFromVec(hn::IfNegativeThenElse(s, not_less, hn::VecFromMask(d, greater)));
#endif
}

// Draws one word from what value(d, i) and bound(d, i) give.
template <class Count, class Value, class Bound>
HWY_INLINE void draw_word(const std::uint16_t* pieces, Count count, const Value& value,
                          const Bound& bound, std::uint8_t* bits) {
  for_each_bit(count, bits, [&](auto d, std::size_t i)
                                HWY_ATTR { return drawn(d, pieces + i, value(d, i), bound(d, i)); });
}

template <class Bound>
HWY_INLINE void draw_all(const Draw& draw, std::uint64_t begin, const float* m, std::size_t count,
                         std::uint8_t* bits, const Bound& bound) {
  Pieces pieces(draw);
  for_each_word(count, [&](std::size_t w, std::size_t at, auto n) HWY_ATTR {
    draw_word(
        pieces.of_word(begin + at), n,
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

template <class D>
struct MeanAndBound {
  hn::Vec<D> mean, bound;
};

// Replaces the moments at i by the next ones.
template <class D>
HWY_INLINE MeanAndBound<D> next_moments(D d, BirderMoments s, const float* g, float* m, float* b,
                                        std::size_t i, Seen& seen) {
  const auto keep = hn::Set(d, s.beta), take = hn::Set(d, s.one_minus_beta);
  // A gradient is looked through before its moments are updated, tile by tile: it is asked for a
  // tile ahead.
  prefetch_ahead<4096, true>(g, i);
  prefetch_page_ahead(m, i);
  prefetch_page_ahead(b, i);
  const auto gradient = hn::LoadU(d, g + i);
  seen.see(d, gradient);
  const auto taken = hn::Mul(take, gradient);
  const auto mean = hn::Add(hn::Mul(keep, hn::LoadU(d, m + i)), taken);
  const auto bound = hn::Add(hn::Mul(keep, hn::LoadU(d, b + i)), hn::Abs(taken));
  const auto gone = hn::Lt(bound, hn::Set(d, kSmallestBound));
  const MeanAndBound<D> next{hn::IfThenZeroElse(gone, mean), hn::IfThenZeroElse(gone, bound)};
  hn::StoreU(next.mean, d, m + i);
  hn::StoreU(next.bound, d, b + i);
  return next;
}

// One word of the moments; `bits` gets its signs where they are drawn. True: some g is not 0.
template <bool kDraws, class Count>
HWY_INLINE bool moments_word(BirderMoments s, const float* g, float* m, float* b, Count count,
                             const std::uint16_t* pieces, std::uint8_t* bits) {
  Seen seen;
  if constexpr (kDraws)
    for_each_bit(count, bits, [&](auto d, std::size_t i) HWY_ATTR {
      const auto next = next_moments(d, s, g, m, b, i, seen);
      return drawn(d, pieces + i, next.mean, next.bound);
    });
  else
    for_each(count, [&](auto d, std::size_t i) HWY_ATTR { next_moments(d, s, g, m, b, i, seen); });
  return seen.any_nonzero();
}

bool BirderMomentsStep(const BirderMoments& s, const float* g, float* m, float* b,
                       std::size_t count, const Draw& draw, std::uint64_t begin,
                       std::uint64_t wanted, std::uint8_t* bits, std::uint64_t* active) {
  *active = 0;
  if (!kernels::all_finite(g, count)) return false;
  Pieces pieces(draw);
  for_each_word(count, [&](std::size_t w, std::size_t at, auto n) HWY_ATTR {
    const bool any =
        (wanted >> w & 1) != 0
            ? moments_word<true>(s, g + at, m + at, b + at, n, pieces.of_word(begin + at), bits + w * 8)
            : moments_word<false>(s, g + at, m + at, b + at, n, nullptr, nullptr);
    *active |= std::uint64_t{any} << w;
  });
  return true;
}

// The count of +1 at elements i.. of a word, from its bit planes.
template <class D>
HWY_INLINE hn::Vec<D> count_at(D d, const std::uint8_t* planes, int number, std::size_t i) {
  auto total = hn::Zero(d);
  for (int j = 0; j < number; ++j, planes += 8) {
    const auto weight = hn::Set(d, static_cast<float>(1 << j));
    total = hn::Add(total, hn::IfThenElseZero(load_bits(d, planes, i), weight));
  }
  return total;
}

#if HWY_TARGET != HWY_SCALAR
// Up to 8 voters: a count c of +1 draws +1 where a piece is below limit[c], an integer that `drawn`
// has for m = 2c - v and b = v, since all its products are exact there.
struct Limits {
  static constexpr int kMostVoters = 8, kMostPlanes = 4;

  void of(std::uint32_t voters) {
    if (voters == known) return;
    known = voters;
    for (std::uint32_t c = 1; c < voters; ++c) {
      // piece < (131072*c - v)/2v, and up to it where s < 0.
      const std::uint32_t over = 131072 * c - voters, below = 2 * voters;
      const std::uint32_t tie = over % below == 0 && 2 * (over / below) + 1 < 65536;
      limit[c] = static_cast<std::int16_t>((over + below - 1) / below + tie - 32768);
    }
  }
  std::uint32_t known = 0;
  std::int16_t limit[kMostVoters] = {};
};

template <std::uint32_t kVoters>
HWY_INLINE std::uint64_t redrawn(const Limits& limits, const std::uint16_t* pieces,
                                 const std::uint64_t* plane) {
  const hn::CappedTag<std::int16_t, 32> d;
  const auto middle = hn::Set(d, std::int16_t{-32768});
  std::uint64_t below[kVoters] = {};
  for (std::size_t k = 0; k < kWord; k += hn::MaxLanes(d)) {
    const auto piece =
        hn::Xor(hn::Load(d, reinterpret_cast<const std::int16_t*>(pieces) + k), middle);
    for (std::uint32_t c = 1; c < kVoters; ++c) {
      std::uint64_t some = 0;
      hn::StoreMaskBits(d, hn::Lt(piece, hn::Set(d, limits.limit[c])),
                        reinterpret_cast<std::uint8_t*>(&some));
      below[c] |= some << k;
    }
  }
  std::uint64_t bits = 0, more = ~std::uint64_t{0};
  for (std::uint32_t c = 0; c < kVoters; ++c) {
    std::uint64_t here = ~std::uint64_t{0};  // elements whose count is c
    for (int j = 0; j < Limits::kMostPlanes; ++j)
      here &= (c >> j & 1) != 0 ? plane[j] : ~plane[j];
    bits |= below[c] & here;
    more &= ~here;
  }
  return bits | more;
}

HWY_INLINE void redraw_word(const Limits& limits, const std::uint16_t* pieces,
                            const std::uint8_t* planes, int number, std::size_t count,
                            std::uint8_t* bits) {
  std::uint64_t plane[Limits::kMostPlanes] = {}, all = 0;
  std::memcpy(plane, planes, static_cast<std::size_t>(number) * 8);
  switch (limits.known) {
    case 1: all = redrawn<1>(limits, pieces, plane); break;
    case 2: all = redrawn<2>(limits, pieces, plane); break;
    case 3: all = redrawn<3>(limits, pieces, plane); break;
    case 4: all = redrawn<4>(limits, pieces, plane); break;
    case 5: all = redrawn<5>(limits, pieces, plane); break;
    case 6: all = redrawn<6>(limits, pieces, plane); break;
    case 7: all = redrawn<7>(limits, pieces, plane); break;
    default: all = redrawn<8>(limits, pieces, plane); break;
  }
  if (count < kWord) all &= (std::uint64_t{1} << count) - 1;
  std::memcpy(bits, &all, 8);
}
#endif

void Redraw(const Draw& draw, std::uint64_t begin, const std::uint8_t* counts,
            const std::uint16_t* voters, int planes, std::size_t count, std::uint8_t* bits) {
  Pieces pieces(draw);
#if HWY_TARGET != HWY_SCALAR
  Limits limits;
#endif
  for_each_word(count, [&](std::size_t w, std::size_t at, auto n) HWY_ATTR {
    const auto voting = static_cast<float>(voters[w]);
    const std::uint8_t* of_word = counts + w * static_cast<std::size_t>(planes) * 8;
    if (voters[w] == 0) return std::memset(bits + w * 8, 0, 8), void();
    const std::uint16_t* piece = pieces.of_word(begin + at);
#if HWY_TARGET != HWY_SCALAR
    if (voters[w] <= Limits::kMostVoters && planes <= Limits::kMostPlanes) {
      limits.of(voters[w]);
      return redraw_word(limits, piece, of_word, planes, n, bits + w * 8);
    }
#endif
    draw_word(
        piece, n,
        [&](auto d, std::size_t i) HWY_ATTR {
          const auto c = count_at(d, of_word, planes, i);
          return hn::Sub(hn::Add(c, c), hn::Set(d, voting));
        },
        [&](auto d, std::size_t) HWY_ATTR { return hn::Set(d, voting); }, bits + w * 8);
  });
}

// use(d, i, sign): +1 or -1 by the bit of element i; +0 where its word is inactive.
template <class Use>
HWY_INLINE void for_each_sign(const std::uint8_t* bits, const std::uint8_t* active,
                              std::size_t count, const Use& use) {
  for_each_word(count, [&](std::size_t w, std::size_t at, auto n) HWY_ATTR {
    const float unit = (active[w / 8] >> (w % 8) & 1) != 0 ? 1.0F : 0.0F;
    const float minus = 0.0F - unit;  // not -unit: an inactive word is +0 throughout
    const std::uint8_t* of_word = bits + w * 8;
    if constexpr (std::is_same_v<decltype(n), std::size_t>) {
      for_each(n, [&](auto d, std::size_t i) HWY_ATTR {
        const auto sign = load_bits(d, of_word, i);
        use(d, at + i, hn::IfThenElse(sign, hn::Set(d, unit), hn::Set(d, minus)));
      });
    } else {
      const Full d;
      for (std::size_t i = 0; i < kWord; i += 4 * kWidth)
        choose_by_bits(of_word, i, hn::Set(d, unit), hn::Set(d, minus),
                       [&](std::size_t k, Vector sign)
                           HWY_ATTR { use(d, at + i + k * kWidth, sign); });
    }
  });
}

void SignsToFloats(const std::uint8_t* bits, const std::uint8_t* active, std::size_t count,
                   float* out) {
  for_each_sign(bits, active, count, [=](auto d, std::size_t i, auto sign) HWY_ATTR {
    hn::StoreU(sign, d, out + i);
  });
}

void SignUpdate(float lr, float decay, const std::uint8_t* bits, const std::uint8_t* active,
                float* x, std::size_t count) {
  for_each_sign(bits, active, count, [=](auto d, std::size_t i, auto sign) HWY_ATTR {
    const auto kept = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, decay));
    hn::StoreU(hn::Sub(kept, hn::Mul(hn::Set(d, lr), sign)), d, x + i);
  });
}

void CountsToFloats(const std::uint8_t* counts, const std::uint16_t* voters, int planes,
                    std::size_t count, float* out) {
  for_each_word(count, [&](std::size_t w, std::size_t at, auto n) HWY_ATTR {
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
  std::uint64_t active;
  see_all(values, count, &active);
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
HWY_EXPORT(SignUpdate);
HWY_EXPORT(CountsToFloats);
HWY_EXPORT(RatioToBf16);
HWY_EXPORT(Ratio);
HWY_EXPORT(Activity);

void draw(const Draw& draw, std::uint64_t begin, const float* m, const float* b, std::size_t count,
          std::uint8_t* bits) noexcept {
  HWY_DYNAMIC_DISPATCH(DrawSigns)(draw, begin, m, b, count, bits);
}
bool birder_moments(const BirderMoments& step, const float* g, float* m, float* b,
                    std::size_t count, const Draw& draw, std::uint64_t begin, std::uint64_t wanted,
                    std::uint8_t* bits, std::uint64_t* active) noexcept {
  return HWY_DYNAMIC_DISPATCH(BirderMomentsStep)(step, g, m, b, count, draw, begin, wanted, bits, active);
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
void sign_update(float lr, float decay, const std::uint8_t* bits, const std::uint8_t* active,
                 float* x, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(SignUpdate)(lr, decay, bits, active, x, count);
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

// Bit-sliced addition: 64 counters at once, no vectors needed. With few planes they stay in
// registers.
template <int kPlanes>
void count_in(const std::uint8_t* const* bits, const std::uint8_t* const* active, int ranks,
              std::size_t words, std::uint8_t* counts, std::uint16_t* voters) {
  for (std::size_t w = 0; w < words; ++w) {
    std::uint64_t plane[kPlanes] = {};
    std::uint64_t voting = 0;
    for (int r = 0; r < ranks; ++r) {
      const std::uint64_t votes = active[r][w / 8] >> (w % 8) & 1;
      voting += votes;
      std::uint64_t carry;
      std::memcpy(&carry, bits[r] + w * 8, 8);
      carry &= 0 - votes;
      for (std::uint64_t& each : plane) {
        const std::uint64_t next = each & carry;
        each ^= carry;
        carry = next;
      }
    }
    voters[w] = static_cast<std::uint16_t>(voting);
    std::memcpy(counts + w * sizeof plane, plane, sizeof plane);
  }
}

void count_signs(const std::uint8_t* const* bits, const std::uint8_t* const* active, int ranks,
                 std::size_t words, std::uint8_t* counts, std::uint16_t* voters) noexcept {
  using Count = decltype(&count_in<1>);
  static constexpr Count kCounts[] = {count_in<1>,  count_in<2>,  count_in<3>,  count_in<4>,
                                      count_in<5>,  count_in<6>,  count_in<7>,  count_in<8>,
                                      count_in<9>,  count_in<10>, count_in<11>, count_in<12>,
                                      count_in<13>, count_in<14>, count_in<15>, count_in<16>};
  // NOLINTNEXTLINE: clang-tidy 14 takes planes_of for unbounded
  kCounts[planes_of(ranks) - 1](bits, active, ranks, words, counts, voters);
}

}  // namespace laconic::kernels
#endif
