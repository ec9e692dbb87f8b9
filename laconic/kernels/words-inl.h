// Loops over words of 64 elements, compiled once for each target (Highway's -inl.h convention).
#if defined(LACONIC_KERNELS_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_WORDS_INL_H_
#undef LACONIC_KERNELS_WORDS_INL_H_
#else
#define LACONIC_KERNELS_WORDS_INL_H_
#endif

#include "laconic/kernels/dense.h"
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

// All bits of what it saw.
class Seen {
 public:
  HWY_INLINE Seen() : all_(hn::Zero(Full())), last_(hn::Zero(One())) {}
  template <class D>
  HWY_INLINE void see(D, hn::Vec<D> value) {
    if constexpr (hn::MaxLanes(D()) == kWidth)
      all_ = hn::Or(all_, value);
    else
      last_ = hn::Or(last_, value);
  }
  HWY_INLINE void see(const Seen& other) {
    all_ = hn::Or(all_, other.all_);
    last_ = hn::Or(last_, other.last_);
  }
  HWY_INLINE bool any_nonzero() const { return !none_above(0); }
  // Whether the magnitude of all bits together, and so of every value, is no larger.
  HWY_INLINE bool bounded_by(float limit) const { return none_above(limit); }

 private:
  HWY_INLINE bool none_above(float limit) const {
    const hn::RebindToSigned<Full> di;
    const auto all = hn::BitCast(di, hn::Abs(all_));
    return hn::AllFalse(di, hn::Gt(all, hn::BitCast(di, hn::Set(Full(), limit)))) &&
           !(bits_of(hn::GetLane(hn::Abs(last_))) > bits_of(limit));
  }

  Vector all_;
  hn::Vec<One> last_;
};

// The activity of up to 64 words: bit w is set when any value of word w is not 0. Returns all bits.
HWY_INLINE Seen see_all(const float* values, std::size_t count, std::uint64_t* active) {
  Seen all;
  *active = 0;
  for_each_word(count, [&](std::size_t w, std::size_t at, auto n) HWY_ATTR {
    Seen word;
    for_each(n,
             [&](auto d, std::size_t i) HWY_ATTR { word.see(d, hn::LoadU(d, values + at + i)); });
    *active |= std::uint64_t{word.any_nonzero()} << w;
    all.see(word);
  });
  return all;
}

// all_finite(g, count), `all` being what see_all returns of g: quicker unless some gradient is 2 or
// more.
HWY_INLINE bool finite(const Seen& all, const float* g, std::size_t count) {
  return all.bounded_by(kLargestGradient) || kernels::all_finite(g, count);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
