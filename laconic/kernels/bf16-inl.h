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

template <class D>
HWY_INLINE void store_bf16(D, hn::Vec<D> value, std::uint16_t* out) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint16_t, D> dh;
  const auto bits = hn::BitCast(du, value);
  const auto top = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(top, hn::Set(du, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu))));
  const auto quiet = hn::Or(top, hn::Set(du, 0x40u));
  const auto nan = hn::RebindMask(du, hn::Not(hn::Eq(value, value)));
  hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, hn::IfThenElse(nan, quiet, rounded))), dh, out);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
