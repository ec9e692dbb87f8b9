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

// Whether any of the values that `load` gives in a word is not 0.
template <class Count, class Load>
HWY_INLINE bool any_nonzero(Count count, const Load& load) {
  auto seen = hn::Zero(Full());
  bool tail = false;
  for_each(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto value = load(d, i);
    if constexpr (hn::MaxLanes(decltype(d)()) == kWidth)
      seen = hn::Or(seen, value);
    else
      tail |= hn::GetLane(value) != 0;
  });
  const hn::RebindToUnsigned<Full> du;
  return tail || !hn::AllTrue(du, hn::Eq(hn::BitCast(du, hn::Abs(seen)), hn::Zero(du)));
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
