#pragma once

#include <cstddef>

#include "laconic/kernels/arithmetic.h"

// The outer step of ranks that train alone for a while, on one tile. Every operation is rounded to
// fp32 in the written order; nothing is fused.
namespace laconic::kernels {

// out = x_sync - x.
void displacement(const float* x_sync, const float* x, std::size_t count, float* out) noexcept;

// With d = mean/penalty, clipped(M) = M bounded to [-clip, clip]:
//   kAverage   x_sync = x_sync - rate*d
//   kNesterov  M = clipped(momentum*M + d); x_sync = x_sync - rate*(d + momentum*M)
//   kMomentum  M = clipped(momentum*M + d); x_sync = x_sync - rate*M
//   kSign      d = d*inverse_gamma; c = beta1*M + (1-beta1)*d; M = clipped(beta2*M + (1-beta2)*d);
//              x_sync = x_sync*decay - rate*sgn(c)
// Then x = x_sync (kEqual), x_sync + (x - snapshot) (kKeep), or own*x + shared*x_sync (kBlend);
// x_sync where what x would keep is not finite. `momentum` may be null with kAverage, `snapshot` unless
// kKeep.
void outer_update(const OuterStep& step, const float* mean, float* momentum, const float* snapshot,
                  float* x_sync, float* x, std::size_t count) noexcept;

}  // namespace laconic::kernels
