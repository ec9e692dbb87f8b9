// Loops over words of 64 elements, compiled once for each target (Highway's -inl.h convention).
#if defined(LACONIC_KERNELS_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_WORDS_INL_H_
#undef LACONIC_KERNELS_WORDS_INL_H_
#else
#define LACONIC_KERNELS_WORDS_INL_H_
#endif

#include "laconic/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

constexpr std::size_t kWord = 64;

// step(word, begin of the word, elements in it) for each word of `count` elements; of whole words
// the elements are a constant.
template <class Step>
HWY_INLINE void for_each_word(std::size_t count, const Step& step) {
  std::size_t w = 0;
  for (; (w + 1) * kWord <= count; ++w)
    step(w, w * kWord, std::integral_constant<std::size_t, kWord>());
  if (w * kWord < count) step(w, w * kWord, count - w * kWord);
}

// A gradient is looked through before its moments are updated, tile by tile: it is asked for a tile
// ahead. Moments are asked for shortly before.
HWY_INLINE void prefetch_gradient(const float* g, std::size_t i) {
  prefetch_ahead<4096, true>(g, i);
}
HWY_INLINE void prefetch_moment(const float* m, std::size_t i) { prefetch_ahead<512, true>(m, i); }

// Whether any of the values that `load` gives in a word is not 0.
template <class Count, class Load>
HWY_INLINE bool any_nonzero(Count count, const Load& load) {
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

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
