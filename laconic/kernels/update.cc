#include "laconic/kernels/update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/update.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "laconic/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// a*x + b*y, each operation rounded.
template <class D>
HWY_INLINE hn::Vec<D> blend(D d, float a, hn::Vec<D> x, float b, hn::Vec<D> y) {
  return hn::Add(hn::Mul(hn::Set(d, a), x), hn::Mul(hn::Set(d, b), y));
}

// D = sqrt(max(v, floor) * correction) + epsilon.
template <class D, class Step>
HWY_INLINE hn::Vec<D> denominator(D d, const Step& s, hn::Vec<D> v) {
  const auto floor = hn::Set(d, s.floor);
  const auto raised = hn::IfThenElse(hn::Lt(v, floor), floor, v);  // not Max: a NaN stays
  return hn::Add(hn::Sqrt(hn::Mul(raised, hn::Set(d, s.correction))), hn::Set(d, s.epsilon));
}

// x*decay - step, and x*decay alone where dead.
template <class D>
HWY_INLINE hn::Vec<D> moved(D d, float decay, hn::Vec<D> x, hn::Vec<D> step, hn::Mask<D> dead) {
  const auto kept = hn::Mul(x, hn::Set(d, decay));
  return hn::IfThenElse(dead, kept, hn::Sub(kept, step));
}

template <class D>
HWY_INLINE hn::Mask<D> is_dead(D d, hn::Vec<D> v) {
  return hn::Eq(v, hn::Zero(d));
}

void Sgdm(const SgdmStep& s, const float* g, float* m, float* x, std::size_t count) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto moment =
        hn::Add(hn::Mul(hn::Set(d, s.momentum), hn::LoadU(d, m + i)), hn::LoadU(d, g + i));
    hn::StoreU(moment, d, m + i);
    const auto kept = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, s.decay));
    hn::StoreU(hn::Sub(kept, hn::Mul(hn::Set(d, s.lr), moment)), d, x + i);
  });
}

// Stores the new moments and returns {m, v}.
template <class D>
struct Moments {
  hn::Vec<D> m, v;
};
template <class D>
HWY_INLINE Moments<D> update_moments(D d, const AdamStep& s, const float* g, float* m, float* v,
                                     std::size_t i) {
  const auto gradient = hn::LoadU(d, g + i);
  const auto first = blend(d, s.beta1, hn::LoadU(d, m + i), s.one_minus_beta1, gradient);
  const auto second =
      blend(d, s.beta2, hn::LoadU(d, v + i), s.one_minus_beta2, hn::Mul(gradient, gradient));
  hn::StoreU(first, d, m + i);
  hn::StoreU(second, d, v + i);
  return {first, second};
}

void AdamW(const AdamStep& s, const float* g, float* m, float* v, float* x, std::size_t count) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto moments = update_moments(d, s, g, m, v, i);
    const auto below =
        hn::Add(hn::Sqrt(hn::Mul(moments.v, hn::Set(d, s.correction))), hn::Set(d, s.epsilon));
    const auto kept = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, s.decay));
    hn::StoreU(hn::Sub(kept, hn::Div(hn::Mul(hn::Set(d, s.rate), moments.m), below)), d, x + i);
  });
}

void AdamMoments(const AdamStep& s, const float* g, float* m, float* v, std::size_t count,
                 Lanes& lanes) {
  accumulate(count, lanes,
             [=](auto d, std::size_t i) HWY_ATTR { return update_moments(d, s, g, m, v, i).v; });
}

template <bool kFromMean, bool kCopy>
HWY_INLINE void apply(const AdamStep& s, const float* from, float* m, const float* v, float* x,
                      float* copy, std::size_t count) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto second = hn::LoadU(d, v + i);
    const auto dead = is_dead(d, second);
    const auto moment = hn::IfThenZeroElse(dead, hn::LoadU(d, (kFromMean ? from : m) + i));
    hn::StoreU(moment, d, m + i);
    const auto step = hn::Div(hn::Mul(hn::Set(d, s.rate), moment), denominator(d, s, second));
    const auto weight = moved(d, s.decay, hn::LoadU(d, x + i), step, dead);
    hn::StoreU(weight, d, x + i);
    if constexpr (kCopy) hn::StoreU(weight, d, copy + i);
  });
}

void AdamApply(const AdamStep& s, float* m, const float* v, float* x, float* copy,
               std::size_t count) {
  copy ? apply<false, true>(s, nullptr, m, v, x, copy, count)
       : apply<false, false>(s, nullptr, m, v, x, nullptr, count);
}

void OneBitApply(const AdamStep& s, const float* mean, float* m, const float* v, float* x,
                 std::size_t count) {
  apply<true, false>(s, mean, m, v, x, nullptr, count);
}

// beta1*m + (1-beta1)*g, or m itself in a bad block.
template <bool kGood, class D>
HWY_INLINE hn::Vec<D> next_momentum(D d, const AdamStep& s, const float* g, const float* m,
                                    std::size_t i) {
  const auto moment = hn::LoadU(d, m + i);
  if constexpr (kGood)
    return blend(d, s.beta1, moment, s.one_minus_beta1, hn::LoadU(d, g + i));
  else
    return moment;
}

template <bool kGood>
HWY_INLINE void momentum_as(const AdamStep& s, const float* g, const float* m, float* out,
                            std::size_t count) {
  for_each(count, [=](auto d, std::size_t i)
                      HWY_ATTR { hn::StoreU(next_momentum<kGood>(d, s, g, m, i), d, out + i); });
}

void Momentum(const AdamStep& s, const float* g, const float* m, float* out, std::size_t count) {
  g ? momentum_as<true>(s, g, m, out, count) : momentum_as<false>(s, g, m, out, count);
}

template <bool kGood>
HWY_INLINE void message_as(const AdamStep& s, float shrink, const float* g, const float* m,
                           const float* pending, float* out, std::size_t count) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto step = hn::Mul(hn::Set(d, s.rate), next_momentum<kGood>(d, s, g, m, i));
    const auto old = hn::Mul(hn::LoadU(d, pending + i), hn::Set(d, shrink));
    hn::StoreU(hn::Add(old, step), d, out + i);
  });
}

void ZeroOneMessage(const AdamStep& s, float shrink, const float* g, const float* m,
                    const float* pending, float* out, std::size_t count) {
  g ? message_as<true>(s, shrink, g, m, pending, out, count)
    : message_as<false>(s, shrink, g, m, pending, out, count);
}

template <bool kGood>
HWY_INLINE void local_as(const AdamStep& s, float shrink, const float* g, float* m, const float* v,
                         float* pending, float* x, std::size_t count) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto second = hn::LoadU(d, v + i);
    const auto dead = is_dead(d, second);
    const auto moment = hn::IfThenZeroElse(dead, next_momentum<kGood>(d, s, g, m, i));
    hn::StoreU(moment, d, m + i);
    const auto step = hn::Mul(hn::Set(d, s.rate), moment);
    const auto old = hn::Mul(hn::LoadU(d, pending + i), hn::Set(d, shrink));
    hn::StoreU(hn::IfThenZeroElse(dead, hn::Add(old, step)), d, pending + i);
    const auto weight = hn::LoadU(d, x + i);
    const auto to = hn::Sub(weight, hn::Div(step, denominator(d, s, second)));
    hn::StoreU(hn::IfThenElse(dead, weight, to), d, x + i);
  });
}

void ZeroOneLocal(const AdamStep& s, float shrink, const float* g, float* m, const float* v,
                  float* pending, float* x, std::size_t count) {
  g ? local_as<true>(s, shrink, g, m, v, pending, x, count)
    : local_as<false>(s, shrink, g, m, v, pending, x, count);
}

template <bool kMomentum>
HWY_INLINE void sync_as(const AdamStep& s, float inverse_gain, const float* mean, float* m,
                        const float* v, float* x_sync, float* x, std::size_t count) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto second = hn::LoadU(d, v + i);
    const auto dead = is_dead(d, second);
    const auto sent = hn::LoadU(d, mean + i);
    if constexpr (kMomentum)
      hn::StoreU(hn::IfThenZeroElse(dead, hn::Mul(sent, hn::Set(d, inverse_gain))), d, m + i);
    const auto step = hn::Div(sent, denominator(d, s, second));
    const auto weight = moved(d, s.decay, hn::LoadU(d, x_sync + i), step, dead);
    hn::StoreU(weight, d, x_sync + i);
    hn::StoreU(weight, d, x + i);
  });
}

void ZeroOneSync(const AdamStep& s, float inverse_gain, const float* mean, float* m, const float* v,
                 float* x_sync, float* x, std::size_t count) {
  m ? sync_as<true>(s, inverse_gain, mean, m, v, x_sync, x, count)
    : sync_as<false>(s, inverse_gain, mean, m, v, x_sync, x, count);
}

template <class D>
HWY_INLINE hn::Vec<D> direction(D d, const TrustStep& s, const float* m, const float* v,
                                hn::Vec<D> x, std::size_t i) {
  const auto moment = hn::Mul(hn::LoadU(d, m + i), hn::Set(d, s.scale));
  const auto adam = hn::Div(moment, denominator(d, s, hn::LoadU(d, v + i)));
  return hn::Add(adam, hn::Mul(hn::Set(d, s.weight_decay), x));
}

void TrustSquares(const TrustStep& s, const float* m, const float* v, const float* x,
                  std::size_t count, std::size_t at, Lanes& of_u, Lanes& of_x) {
  const auto add = [=](auto d, std::size_t i, auto& sum_u, auto& sum_x) HWY_ATTR {
    const auto weight = hn::LoadU(d, x + i);
    const auto u = direction(d, s, m, v, weight, i);
    sum_u = hn::Add(sum_u, hn::Mul(u, u));
    sum_x = hn::Add(sum_x, hn::Mul(weight, weight));
  };
  const auto add_one = [&](std::size_t i) HWY_ATTR {
    const One d;
    float *lane_u = of_u.lane + (at + i) % 16, *lane_x = of_x.lane + (at + i) % 16;
    auto sum_u = hn::LoadU(d, lane_u), sum_x = hn::LoadU(d, lane_x);
    add(d, i, sum_u, sum_x);
    hn::StoreU(sum_u, d, lane_u);
    hn::StoreU(sum_x, d, lane_x);
  };
  std::size_t i = 0;
  for (; i < count && (at + i) % 16 != 0; ++i) add_one(i);
  const Full d;
  constexpr std::size_t kVectors = 16 / kWidth;
  Vector sum_u[kVectors], sum_x[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) {
    sum_u[k] = hn::Load(d, of_u.lane + k * kWidth);
    sum_x[k] = hn::Load(d, of_x.lane + k * kWidth);
  }
  for (; i + 16 <= count; i += 16)
    for (std::size_t k = 0; k < kVectors; ++k) add(d, i + k * kWidth, sum_u[k], sum_x[k]);
  for (std::size_t k = 0; k < kVectors; ++k) {
    hn::Store(sum_u[k], d, of_u.lane + k * kWidth);
    hn::Store(sum_x[k], d, of_x.lane + k * kWidth);
  }
  for (; i < count; ++i) add_one(i);
}

void TrustApply(const TrustStep& s, float rate, const float* m, const float* v, float* x,
                std::size_t count) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto weight = hn::LoadU(d, x + i);
    const auto u = direction(d, s, m, v, weight, i);
    hn::StoreU(hn::Sub(weight, hn::Mul(hn::Set(d, rate), u)), d, x + i);
  });
}

void BirderUpdate(float lr, float decay, const float* r, float* x, std::size_t count) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto kept = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, decay));
    hn::StoreU(hn::Sub(kept, hn::Mul(hn::Set(d, lr), hn::LoadU(d, r + i))), d, x + i);
  });
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {

HWY_EXPORT(Sgdm);
HWY_EXPORT(AdamW);
HWY_EXPORT(AdamMoments);
HWY_EXPORT(AdamApply);
HWY_EXPORT(OneBitApply);
HWY_EXPORT(Momentum);
HWY_EXPORT(ZeroOneMessage);
HWY_EXPORT(ZeroOneLocal);
HWY_EXPORT(ZeroOneSync);
HWY_EXPORT(TrustSquares);
HWY_EXPORT(TrustApply);
HWY_EXPORT(BirderUpdate);

void sgdm(const SgdmStep& step, const float* g, float* m, float* x, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(Sgdm)(step, g, m, x, count);
}
void adamw(const AdamStep& step, const float* g, float* m, float* v, float* x,
           std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(AdamW)(step, g, m, v, x, count);
}
void adam_moments(const AdamStep& step, const float* g, float* m, float* v, std::size_t count,
                  Lanes& lanes) noexcept {
  HWY_DYNAMIC_DISPATCH(AdamMoments)(step, g, m, v, count, lanes);
}
void adam_apply(const AdamStep& step, float* m, const float* v, float* x, float* copy,
                std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(AdamApply)(step, m, v, x, copy, count);
}
void momentum(const AdamStep& step, const float* g, const float* m, float* out,
              std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(Momentum)(step, g, m, out, count);
}
void one_bit_apply(const AdamStep& step, const float* mean, float* m, const float* v, float* x,
                   std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(OneBitApply)(step, mean, m, v, x, count);
}
void zero_one_message(const AdamStep& step, float shrink, const float* g, const float* m,
                      const float* pending, float* out, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(ZeroOneMessage)(step, shrink, g, m, pending, out, count);
}
void zero_one_local(const AdamStep& step, float shrink, const float* g, float* m, const float* v,
                    float* pending, float* x, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(ZeroOneLocal)(step, shrink, g, m, v, pending, x, count);
}
void zero_one_sync(const AdamStep& step, float inverse_gain, const float* mean, float* m,
                   const float* v, float* x_sync, float* x, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(ZeroOneSync)(step, inverse_gain, mean, m, v, x_sync, x, count);
}
void trust_squares(const TrustStep& step, const float* m, const float* v, const float* x,
                   std::size_t count, std::size_t at, Lanes& of_u, Lanes& of_x) noexcept {
  HWY_DYNAMIC_DISPATCH(TrustSquares)(step, m, v, x, count, at, of_u, of_x);
}
void trust_apply(const TrustStep& step, float rate, const float* m, const float* v, float* x,
                 std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(TrustApply)(step, rate, m, v, x, count);
}
void birder_update(float lr, float decay, const float* r, float* x, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(BirderUpdate)(lr, decay, r, x, count);
}

}  // namespace laconic::kernels
#endif
