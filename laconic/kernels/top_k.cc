#include "laconic/kernels/top_k.h"

#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/top_k.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "laconic/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// So few keys are looked through apart from the block.
constexpr std::size_t kFew = 128;

// |p| as an integer, in the order of magnitudes; -1, less than all, where p is dead.
template <bool kMasked, class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> key_of(D d, const float* p, const float* live,
                                                 std::size_t i) {
  const hn::RebindToSigned<D> di;
  const auto key = hn::BitCast(di, hn::Abs(hn::LoadU(d, p + i)));
  if constexpr (kMasked)
    return hn::Or(key,
                  hn::BitCast(di, hn::VecFromMask(d, hn::Eq(hn::LoadU(d, live + i), hn::Zero(d)))));
  else
    return key;
}

// A block as keys.
template <bool kMasked>
struct Keys {
  const float *p, *live;
  std::size_t count;

  template <class D>
  HWY_INLINE hn::Vec<hn::RebindToSigned<D>> at(D d, std::size_t i) const {
    return key_of<kMasked>(d, p, live, i);
  }

  // How many are above `bound`.
  HWY_INLINE std::size_t above(std::int32_t bound) const {
    const Full d;
    const hn::RebindToSigned<Full> di;
    const auto least = hn::Set(di, bound);
    auto even = hn::Zero(di), odd = even;  // -1 for each
    std::size_t i = 0;
    for (; i + 2 * kWidth <= count; i += 2 * kWidth) {
      even = hn::Add(even, hn::VecFromMask(di, hn::Gt(at(d, i), least)));
      odd = hn::Add(odd, hn::VecFromMask(di, hn::Gt(at(d, i + kWidth), least)));
    }
    std::int32_t found = -hn::GetLane(hn::SumOfLanes(di, hn::Add(even, odd)));
    for (; i < count; ++i) found += hn::GetLane(at(One(), i)) > bound ? 1 : 0;
    return static_cast<std::size_t>(found);
  }

  // Bit i is whether is(d, key i).
  template <class Is>
  HWY_INLINE void mark(std::uint8_t* bits, const Is& is) const {
    for_each_bit(count, bits, [&](auto d, std::size_t i) HWY_ATTR {
      return hn::RebindMask(d, is(hn::RebindToSigned<decltype(d)>(), at(d, i)));
    });
  }
};

// work(i) for every 1 of the word that begins with element `first`.
template <class Work>
HWY_INLINE void for_each_one(std::uint64_t word, std::size_t first, const Work& work) {
  for (; word != 0; word &= word - 1)
    work(first + static_cast<std::size_t>(std::countr_zero(word)));
}

HWY_INLINE std::uint64_t load_word(const std::uint8_t* bits, std::size_t w) {
  std::uint64_t word;
  std::memcpy(&word, bits + 8 * w, 8);
  return word;
}

// The lowest bits of a word, as many as are left; `left` counts down.
HWY_INLINE std::uint64_t first_of(std::uint64_t word, std::size_t& left) {
  const auto all = static_cast<std::size_t>(std::popcount(word));
  if (all <= left) {
    left -= all;
    return word;
  }
  std::uint64_t taken = 0;
  for (; left > 0; --left, word &= word - 1) taken |= word & -word;
  return taken;
}

// Where the wanted key lies: the slots-th largest is one of [low, high); `from` keys are at least
// low, `above` at least high.
struct Window {
  std::int32_t low, high;
  std::size_t from, above;

  bool one_key() const { return high - low == 1; }
};

// Halves the window until one key, or no more than `few`, are left in it. `apart` are above it and
// not among `keys`. Zeros are common, so they are tried first.
template <bool kMasked>
HWY_INLINE void narrow(const Keys<kMasked>& keys, std::size_t slots, std::size_t apart,
                       std::size_t few, Window& window) {
  while (!window.one_key() && window.from - window.above > few) {
    const std::int32_t middle = window.low == 0 ? 1 : window.low + (window.high - window.low) / 2;
    const std::size_t found = apart + keys.above(middle - 1);
    if (found >= slots) {
      window.low = middle;
      window.from = found;
    } else {
      window.high = middle;
      window.above = found;
    }
  }
}

// What is kept: keys above `least`, and the first `ties` of those that are equal to it.
struct Kept {
  std::int32_t least = -1;
  std::size_t ties = 0;
};

template <bool kMasked>
HWY_INLINE Kept find(const Keys<kMasked>& keys, std::size_t slots, float largest_value) {
  std::int32_t largest;
  std::memcpy(&largest, &largest_value, sizeof largest);
  if (slots >= keys.count) return {};
  // Down from the largest: by half an octave, one, two, four, …
  Window window{0, largest + 1, 0, 0};
  for (std::int64_t step = 1 << 22;; step *= 2) {
    window.low = largest > step ? static_cast<std::int32_t>(largest - step) : 0;
    window.from = keys.above(window.low - 1);
    if (window.from >= slots) break;
    if (window.low == 0) return {};
    window.high = window.low;
    window.above = window.from;
  }
  narrow(keys, slots, 0, kFew, window);
  if (!window.one_key()) {
    HWY_ALIGN std::uint8_t bits[kTopKBlock / 8];
    float few[kFew];
    std::size_t number = 0;
    keys.mark(bits, [&](auto di, auto key) HWY_ATTR {
      return hn::And(hn::Gt(key, hn::Set(di, window.low - 1)),
                     hn::Gt(hn::Set(di, window.high), key));
    });
    for (std::size_t w = 0; w * 64 < keys.count; ++w)
      for_each_one(load_word(bits, w), w * 64,
                   [&](std::size_t i) HWY_ATTR { few[number++] = keys.p[i]; });
    narrow(Keys<false>{few, nullptr, number}, slots, window.above, 0, window);
  }
  if (window.from == slots) return {window.low - 1, 0};
  return {window.low, slots - window.above};
}

// What stands in the places of a block, in order, with zeros after it.
struct Chosen {
  std::uint16_t index[kTopKBlock];
  std::uint8_t field[kTopKBlock];
  float left[kTopKBlock];  // of each, the residual
  std::size_t number = 0;
};

// Three bytes per pair of indices, one per pair of codes; after an odd number of indices the codes
// begin in the middle of a byte.
HWY_INLINE void pack(Chosen& chosen, std::size_t slots, std::uint8_t* places) {
  for (std::size_t k = chosen.number; k < slots; ++k) chosen.index[k] = chosen.field[k] = 0;
  const auto byte = [](unsigned value) { return static_cast<std::uint8_t>(value); };
  std::uint8_t* to = places;
  std::size_t place = 0;
  for (; place + 2 <= slots; place += 2, to += 3) {
    const unsigned first = chosen.index[place], second = chosen.index[place + 1];
    to[0] = byte(first);
    to[1] = byte(first >> 8 | second << 4);
    to[2] = byte(second >> 4);
  }
  std::size_t code = 0;
  if (place < slots) {
    *to++ = byte(chosen.index[place]);
    *to++ = byte(chosen.index[place] >> 8 | chosen.field[code++] << 4);
  }
  for (; code + 2 <= slots; code += 2)
    *to++ = byte(chosen.field[code] | chosen.field[code + 1] << 4);
}

template <bool kMasked>
HWY_INLINE void encode_as(const float* p, const float* live, std::size_t count, std::size_t slots,
                          float largest, float gain, float* e, std::uint8_t* places) {
  const Keys<kMasked> keys{p, live, count};
  const Kept kept = find(keys, slots, largest);
  HWY_ALIGN std::uint8_t above[kTopKBlock / 8], equal[kTopKBlock / 8];
  keys.mark(above,
            [&](auto di, auto key) HWY_ATTR { return hn::Gt(key, hn::Set(di, kept.least)); });
  if (kept.ties > 0)
    keys.mark(equal,
              [&](auto di, auto key) HWY_ATTR { return hn::Eq(key, hn::Set(di, kept.least)); });
  // `e` may be `p`, so what is left of kept elements waits until p has been read.
  const float scale = integer_scale(largest, kTopKBits), inverse = inverse_scale(scale);
  Chosen chosen;
  std::size_t ties = kept.ties;
  for (std::size_t w = 0; w * 64 < count; ++w) {
    std::uint64_t word = load_word(above, w);
    if (ties > 0) word |= first_of(load_word(equal, w), ties);
    for_each_one(word, w * 64, [&](std::size_t i) HWY_ATTR {
      const int code = code_of(p[i], inverse, largest_code(kTopKBits));
      chosen.index[chosen.number] = static_cast<std::uint16_t>(i);
      chosen.field[chosen.number] = static_cast<std::uint8_t>(code & 0xF);
      chosen.left[chosen.number++] = residual_of(p[i], scale, code, gain);
    });
  }
  pack(chosen, slots, places);
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    prefetch_ahead(e, i);
    const auto all = hn::Mul(hn::LoadU(d, p + i), hn::Set(d, gain));
    hn::StoreU(only_live<kMasked>(d, live, i, all), d, e + i);
  });
  for (std::size_t k = 0; k < chosen.number; ++k) e[chosen.index[k]] = chosen.left[k];
}

void ToTopK(const float* p, const float* live, std::size_t count, std::size_t slots, float largest,
            float gain, float* e, std::uint8_t* places) {
  live ? encode_as<true>(p, live, count, slots, largest, gain, e, places)
       : encode_as<false>(p, live, count, slots, largest, gain, e, places);
}

// The value of every code: sixteen.
struct Values {
  explicit Values(float scale) {
    for (int field = 0; field < 16; ++field) of[field] = decoded(scale, (field ^ 8) - 8);
  }
  float of[16];
};

// work(i, value) for the elements of [begin, begin + count), i from 0 on. Two places at once: their
// indices are three bytes.
template <class Work>
HWY_INLINE void for_each_place(const Integers& from, std::size_t slots, std::size_t begin,
                               std::size_t count, const Work& work) {
  const Values values(from.scale);
  const auto element = [&](std::size_t index, unsigned field) HWY_ATTR {
    if (index - begin < count) work(index - begin, values.of[field & 0xF]);
  };
  std::size_t used = slots;
  while (used > 0 && is_free(from.codes, used - 1)) --used;
  const std::uint8_t* indices = from.codes;
  const std::uint8_t* codes = from.codes + 3 * slots / 2;
  const std::size_t odd = slots % 2;  // then codes begin in the middle of a byte
  std::size_t place = 0;
  for (; place + 2 <= used; place += 2, indices += 3, ++codes) {
    std::uint32_t both = indices[2];
    both = both << 16 | static_cast<std::uint32_t>(indices[1] << 8 | indices[0]);
    element(both & 0xFFF, codes[0] >> (4 * odd));
    element(both >> 12, codes[odd] >> (4 * (1 - odd)));
  }
  if (place < used) element(index_at(from.codes, place), codes[0] >> (4 * odd));
}

template <bool kFeedback, bool kMasked>
HWY_INLINE void sum_as(const Integers* from, int ranks, std::size_t slots, float factor,
                       const float* e, const float* live, std::size_t begin, std::size_t count,
                       float* q, Lanes& lanes) {
  std::memset(q, 0, count * sizeof(float));
  for (int r = 0; r < ranks; ++r)
    for_each_place(from[r], slots, begin, count,
                   [=](std::size_t i, float value) HWY_ATTR { q[i] += value; });
  find_largest(count, lanes, [=](auto d, std::size_t i) HWY_ATTR {
    auto value = hn::Mul(hn::LoadU(d, q + i), hn::Set(d, factor));
    if constexpr (kFeedback) value = hn::Add(value, hn::LoadU(d, e + i));
    value = only_live<kMasked>(d, live, i, value);
    hn::StoreU(value, d, q + i);
    return value;
  });
}

void SumTopK(const Integers* from, int ranks, std::size_t slots, float factor, const float* e,
             const float* live, std::size_t begin, std::size_t count, float* q, Lanes& lanes) {
  if (live != nullptr)
    e ? sum_as<true, true>(from, ranks, slots, factor, e, live, begin, count, q, lanes)
      : sum_as<false, true>(from, ranks, slots, factor, e, live, begin, count, q, lanes);
  else
    e ? sum_as<true, false>(from, ranks, slots, factor, e, live, begin, count, q, lanes)
      : sum_as<false, false>(from, ranks, slots, factor, e, live, begin, count, q, lanes);
}

void FromTopK(Integers from, std::size_t slots, std::size_t begin, std::size_t count, float* out) {
  std::memset(out, 0, count * sizeof(float));
  // Memory would rest while places are filled: the next block's is asked for. Parts of a block are
  // for somebody who reads them from L1.
  std::size_t asked = count == kTopKBlock ? 0 : count;
  for_each_place(from, slots, begin, count, [=, &asked](std::size_t i, float value) HWY_ATTR {
    out[i] = value;
    if (asked == count) return;
    prefetch_ahead<kTopKBlock, true>(out, asked);
    prefetch_ahead<kTopKBlock, true>(out, asked + 16);
    asked += 32;
  });
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {

HWY_EXPORT(ToTopK);
HWY_EXPORT(SumTopK);
HWY_EXPORT(FromTopK);

void to_top_k(const float* p, const float* live, std::size_t count, std::size_t slots,
              float largest, float gain, float* e, std::uint8_t* places) noexcept {
  HWY_DYNAMIC_DISPATCH(ToTopK)(p, live, count, slots, largest, gain, e, places);
}

void sum_top_k(const Integers* from, int ranks, std::size_t slots, float factor, const float* e,
               const float* live, std::size_t begin, std::size_t count, float* q,
               Lanes& lanes) noexcept {
  HWY_DYNAMIC_DISPATCH(SumTopK)(from, ranks, slots, factor, e, live, begin, count, q, lanes);
}

void from_top_k(Integers from, std::size_t slots, std::size_t begin, std::size_t count,
                float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(FromTopK)(from, slots, begin, count, out);
}

}  // namespace laconic::kernels
#endif
