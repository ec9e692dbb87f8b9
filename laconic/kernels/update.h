#pragma once

#include <cstddef>

#include "laconic/kernels/arithmetic.h"

// Fused moment and weight updates on one tile. Every operation is rounded to fp32 in the written
// order; nothing is fused. D below is sqrt(max(v, floor) * correction) + epsilon. An element with v
// == 0 is dead: its m (and pending) is held at 0 and only weight decay moves it.
namespace laconic::kernels {

// m = momentum*m + g; x = x*decay - lr*m.
void sgdm(const SgdmStep& step, const float* g, float* m, float* x, std::size_t count) noexcept;

// AdamW in one pass: m = beta1*m + (1-beta1)*g; v = beta2*v + (1-beta2)*(g*g); x = x*decay -
// (rate*m)/D. No element is dead and the floor is not used here.
void adamw(const AdamStep& step, const float* g, float* m, float* v, float* x,
           std::size_t count) noexcept;

// The moments alone; adds v to `lanes` (as measure does), for the floor.
void adam_moments(const AdamStep& step, const float* g, float* m, float* v, std::size_t count,
                  Lanes& lanes) noexcept;

// x = x*decay - (rate*m)/D; where v == 0, m = 0 and x = x*decay. `copy`, unless null, gets x too.
void adam_apply(const AdamStep& step, float* m, const float* v, float* x, float* copy,
                std::size_t count) noexcept;

// out = beta1*m + (1-beta1)*g; g null (a bad block): out = m.
void momentum(const AdamStep& step, const float* g, const float* m, float* out,
              std::size_t count) noexcept;

// 1-bit Adam's coded step: m = mean (0 where v == 0), then as adam_apply.
void one_bit_apply(const AdamStep& step, const float* mean, float* m, const float* v, float* x,
                   std::size_t count) noexcept;

// A message with what is pending: out = pending*shrink + rate*(beta1*m + (1-beta1)*g); g null: out
// = pending*shrink + rate*m.
void zero_one_message(const AdamStep& step, float shrink, const float* g, const float* m,
                      const float* pending, float* out, std::size_t count) noexcept;

// A local step: m = beta1*m + (1-beta1)*g (g null: m stays); d = rate*m; pending =
// pending*shrink + d; x = x - d/D. Where v == 0: m = pending = 0 and x stays.
void zero_one_local(const AdamStep& step, float shrink, const float* g, float* m, const float* v,
                    float* pending, float* x, std::size_t count) noexcept;

// A sync: m = mean*inverse_gain (inverse_gain = 1/G); x_sync = decay*x_sync - mean/D; x =
// x_sync. Where v == 0: m = 0 and x = x_sync = decay*x_sync. m null: m is not touched.
void zero_one_sync(const AdamStep& step, float inverse_gain, const float* mean, float* m,
                   const float* v, float* x_sync, float* x, std::size_t count) noexcept;

// Adds the squares of u = (m*scale)/D + weight_decay*x, and of x, to the lanes of sums that have
// `at` elements already. No element is dead.
void trust_squares(const TrustStep& step, const float* m, const float* v, const float* x,
                   std::size_t count, std::size_t at, Lanes& of_u, Lanes& of_x) noexcept;

// x = x - rate*u, u as above. rate = lr * the tensor's trust ratio.
void trust_apply(const TrustStep& step, float rate, const float* m, const float* v, float* x,
                 std::size_t count) noexcept;

// A consensus of signs: x = x*decay - lr*r.
void birder_update(float lr, float decay, const float* r, float* x, std::size_t count) noexcept;

}  // namespace laconic::kernels
