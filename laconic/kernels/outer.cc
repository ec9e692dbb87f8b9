#include "laconic/kernels/outer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/outer.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "laconic/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

void Displacement(const float* x_sync, const float* x, std::size_t count, float* out) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    prefetch_ahead(x_sync, i);
    prefetch_ahead(x, i);
    hn::StoreU(hn::Sub(hn::LoadU(d, x_sync + i), hn::LoadU(d, x + i)), d, out + i);
  });
}

// Comparisons instead of Min and Max: a NaN stays.
template <class D>
HWY_INLINE hn::Vec<D> clipped(D d, float bound, hn::Vec<D> value) {
  const auto high = hn::Set(d, bound), low = hn::Set(d, -bound);
  const auto below = hn::IfThenElse(hn::Lt(high, value), high, value);
  return hn::IfThenElse(hn::Lt(value, low), low, below);
}

template <class D>
HWY_INLINE hn::Vec<D> sign(D d, hn::Vec<D> value) {
  const auto zero = hn::Zero(d);
  const auto up = hn::IfThenElseZero(hn::Gt(value, zero), hn::Set(d, 1.0F));
  return hn::IfThenElse(hn::Lt(value, zero), hn::Set(d, -1.0F), up);
}

// a*x + b*y, each operation rounded.
template <class D>
HWY_INLINE hn::Vec<D> weighted(D d, float a, hn::Vec<D> x, float b, hn::Vec<D> y) {
  return hn::Add(hn::Mul(hn::Set(d, a), x), hn::Mul(hn::Set(d, b), y));
}

// Stores the outer momentum and returns the shared weights.
template <OuterRule kRule, class D>
HWY_INLINE hn::Vec<D> shared_weights(D d, const OuterStep& s, const float* mean, float* momentum,
                                     const float* x_sync, std::size_t i) {
  const auto rate = hn::Set(d, s.rate);
  const auto before = hn::LoadU(d, x_sync + i);
  auto moved = hn::Div(hn::LoadU(d, mean + i), hn::Set(d, s.penalty));
  if constexpr (kRule == OuterRule::kAverage) return hn::Sub(before, hn::Mul(rate, moved));
  const auto m = hn::LoadU(d, momentum + i);
  if constexpr (kRule == OuterRule::kSign) {
    moved = hn::Mul(moved, hn::Set(d, s.inverse_gamma));
    const auto c = weighted(d, s.beta1, m, s.one_minus_beta1, moved);
    hn::StoreU(clipped(d, s.clip, weighted(d, s.beta2, m, s.one_minus_beta2, moved)), d,
               momentum + i);
    return hn::Sub(hn::Mul(before, hn::Set(d, s.decay)), hn::Mul(rate, sign(d, c)));
  }
  const auto mu = hn::Set(d, s.momentum);
  const auto next = clipped(d, s.clip, hn::Add(hn::Mul(mu, m), moved));
  hn::StoreU(next, d, momentum + i);
  if constexpr (kRule == OuterRule::kNesterov)
    return hn::Sub(before, hn::Mul(rate, hn::Add(moved, hn::Mul(mu, next))));
  return hn::Sub(before, hn::Mul(rate, next));
}

// `kept` where |value| <= kLargestGradient, else `otherwise`.
template <class D>
HWY_INLINE hn::Vec<D> where_finite(D d, hn::Vec<D> value, hn::Vec<D> kept, hn::Vec<D> otherwise) {
  return hn::IfThenElse(hn::Le(hn::Abs(value), hn::Set(d, kLargestGradient)), kept, otherwise);
}

template <Follow kFollow, class D>
HWY_INLINE hn::Vec<D> own_weights(D d, const OuterStep& s, hn::Vec<D> shared, const float* snapshot,
                                  const float* x, std::size_t i) {
  if constexpr (kFollow == Follow::kEqual) return shared;
  const auto own = hn::LoadU(d, x + i);
  if constexpr (kFollow == Follow::kBlend)
    return where_finite(d, own, weighted(d, s.own, own, s.shared, shared), shared);
  const auto moved = hn::Sub(own, hn::LoadU(d, snapshot + i));
  return where_finite(d, moved, hn::Add(shared, moved), shared);
}

template <OuterRule kRule, Follow kFollow>
HWY_INLINE void update_as(const OuterStep& s, const float* mean, float* momentum,
                          const float* snapshot, float* x_sync, float* x, std::size_t count) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto shared = shared_weights<kRule>(d, s, mean, momentum, x_sync, i);
    hn::StoreU(shared, d, x_sync + i);
    hn::StoreU(own_weights<kFollow>(d, s, shared, kFollow == Follow::kKeep ? snapshot : x, x, i), d,
               x + i);
  });
}

template <OuterRule kRule>
HWY_INLINE void update_by(const OuterStep& s, const float* mean, float* momentum,
                          const float* snapshot, float* x_sync, float* x, std::size_t count) {
  switch (s.follow) {
    case Follow::kEqual:
      return update_as<kRule, Follow::kEqual>(s, mean, momentum, snapshot, x_sync, x, count);
    case Follow::kKeep:
      return update_as<kRule, Follow::kKeep>(s, mean, momentum, snapshot, x_sync, x, count);
    case Follow::kBlend:
      return update_as<kRule, Follow::kBlend>(s, mean, momentum, snapshot, x_sync, x, count);
  }
}

void OuterUpdate(const OuterStep& s, const float* mean, float* momentum, const float* snapshot,
                 float* x_sync, float* x, std::size_t count) {
  switch (s.rule) {
    case OuterRule::kAverage:
      return update_by<OuterRule::kAverage>(s, mean, momentum, snapshot, x_sync, x, count);
    case OuterRule::kNesterov:
      return update_by<OuterRule::kNesterov>(s, mean, momentum, snapshot, x_sync, x, count);
    case OuterRule::kMomentum:
      return update_by<OuterRule::kMomentum>(s, mean, momentum, snapshot, x_sync, x, count);
    case OuterRule::kSign:
      return update_by<OuterRule::kSign>(s, mean, momentum, snapshot, x_sync, x, count);
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {

HWY_EXPORT(Displacement);
HWY_EXPORT(OuterUpdate);

void displacement(const float* x_sync, const float* x, std::size_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(Displacement)(x_sync, x, count, out);
}
void outer_update(const OuterStep& step, const float* mean, float* momentum, const float* snapshot,
                  float* x_sync, float* x, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(OuterUpdate)(step, mean, momentum, snapshot, x_sync, x, count);
}

}  // namespace laconic::kernels
#endif
