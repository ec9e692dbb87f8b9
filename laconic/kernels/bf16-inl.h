// bf16 to and from fp32 on integers, the same on every target.
#if defined(LACONIC_KERNELS_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_BF16_INL_H_
#undef LACONIC_KERNELS_BF16_INL_H_
#else
#define LACONIC_KERNELS_BF16_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_bf16(D d, const std::uint16_t* in) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint16_t, D> dh;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, in))));
}

// The nearest bf16 in the upper half of each lane, to even where two are as near; NaN stays NaN, made
// quiet. What is below is rest.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> rounded_bf16(D, hn::Vec<D> value) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000u));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), quiet, rounded);
}

// As a float, without the rest.
template <class D>
HWY_INLINE hn::Vec<D> widened(D d, hn::Vec<hn::RebindToUnsigned<D>> rounded) {
  return hn::BitCast(d, hn::And(rounded, hn::Set(hn::RebindToUnsigned<D>(), 0xFFFF0000u)));
}

template <class D>
HWY_INLINE void store_bf16(D d, hn::Vec<D> value, std::uint16_t* out) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint16_t, D> dh;
  const auto upper = hn::ShiftRight<16>(rounded_bf16(d, value));
  hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, upper)), dh, out);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
