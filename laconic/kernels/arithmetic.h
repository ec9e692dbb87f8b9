#pragma once

#include <cmath>
#include <cstdint>

#include "laconic/core/random.h"

// The arithmetic of one element, written once: the scalar reference loops over it, and kernels for
// other devices call it. Every operation is rounded to fp32 in the written order; no product and sum
// may be fused, which is the compiler's flags to keep (-ffp-contract=off). Only functions that CUDA
// has in the global namespace are used: copysignf, fabsf, rintf, sqrtf.
namespace laconic::kernels {

LACONIC_HOST_DEVICE inline std::uint32_t bits_of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
LACONIC_HOST_DEVICE inline float float_of_bits(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

// bf16, rounded to the nearest, ties to even; a NaN stays one.
LACONIC_HOST_DEVICE inline std::uint16_t bf16_of(float value) {
  const std::uint32_t bits = bits_of(value);
  if (value != value) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  const std::uint32_t odd = bits >> 16 & 1;
  return static_cast<std::uint16_t>((bits + 0x7FFF + odd) >> 16);
}
LACONIC_HOST_DEVICE inline float float_of_bf16(std::uint16_t bf16) {
  return float_of_bits(static_cast<std::uint32_t>(bf16) << 16);
}

// Gradients beyond this count as not finite.
inline constexpr float kLargestGradient = 1e16F;

LACONIC_HOST_DEVICE inline bool is_finite(float gradient) {
  return fabsf(gradient) <= kLargestGradient;
}

// The residual that keeps a share of the one before.
LACONIC_HOST_DEVICE inline float blended(float keep, float r, float e) { return keep * e + r; }

// Signs with one scale per block.

enum class Norm : std::uint8_t { kL2, kL1 };

// Lane j of a sum holds elements j, j+16, j+32, … in order.
struct Lanes {
  alignas(64) float lane[16] = {};
};

// What p adds to the sum of its lane.
LACONIC_HOST_DEVICE inline float weight_of(float p, Norm norm) {
  return norm == Norm::kL2 ? p * p : fabsf(p);
}
// Of `counted` elements; 0 where there are none.
LACONIC_HOST_DEVICE inline float scale_of_sum(float sum, std::int64_t counted, Norm norm) {
  if (counted == 0) return 0;
  const float mean = sum / static_cast<float>(counted);
  return norm == Norm::kL2 ? sqrtf(mean) : mean;
}
// C(p).
LACONIC_HOST_DEVICE inline float decoded(float scale, bool negative) {
  return copysignf(scale, negative ? -1.0F : 1.0F);
}
LACONIC_HOST_DEVICE inline float residual_of(float p, float scale, float gain) {
  return (p - copysignf(scale, p)) * gain;
}

// Integers of 8, 4 or 2 bits with one scale per block.

// |a| or |b|, whichever is larger; Inf and NaN are larger than all others. REQUIRES: a >= 0 or NaN.
LACONIC_HOST_DEVICE inline float larger_magnitude(float a, float b) {
  const float size = fabsf(b);
  return static_cast<std::int32_t>(bits_of(size)) > static_cast<std::int32_t>(bits_of(a)) ? size
                                                                                          : a;
}
// L: codes are -L to L.
LACONIC_HOST_DEVICE constexpr int largest_code(int bits) { return (1 << (bits - 1)) - 1; }
// s = M/L of a block's largest magnitude M; 0 where 1/s would not be finite, so that every code is
// 0.
LACONIC_HOST_DEVICE inline float integer_scale(float largest, int bits) {
  const float scale = largest / static_cast<float>(largest_code(bits));
  return 1.0F / scale <= 3.40282347e38F ? scale : 0.0F;
}
// Blocks with a larger scale cannot be encoded: every field times it is finite, -L-1 too.
LACONIC_HOST_DEVICE inline float largest_scale(int bits) {
  return 3.40282347e38F / static_cast<float>(1 << (bits - 1));
}
// r = 1/s, 0 where s is 0.
LACONIC_HOST_DEVICE inline float inverse_scale(float scale) {
  return scale == 0 ? 0.0F : 1.0F / scale;
}
// p*r, rounded to the nearest integer, ties to even, and clamped: L is an integer, so it may be
// clamped first.
LACONIC_HOST_DEVICE inline int code_of(float p, float inverse, int largest) {
  const auto bound = static_cast<float>(largest);
  const float u = p * inverse;
  return static_cast<int>(rintf(u < -bound ? -bound : bound < u ? bound : u));
}
// C(p).
LACONIC_HOST_DEVICE inline float decoded(float scale, int code) {
  return static_cast<float>(code) * scale;
}
LACONIC_HOST_DEVICE inline float residual_of(float p, float scale, int code, float gain) {
  return (p - decoded(scale, code)) * gain;
}

// Random signs.

// Which random numbers a draw uses. Element k of the vector takes 16 bits: the (k % 8)-th 16-bit
// piece, in memory order, of philox({stream, rank, bucket, k / 8}, key); s = piece/32768 - 1 +
// 1/65536.
struct Draw {
  PhiloxKey key{};  // (seed, step)
  Stream stream = Stream::kWorkerDraw;
  std::uint32_t rank = 0, bucket = 0;
};

LACONIC_HOST_DEVICE inline float uniform_of(std::uint32_t piece) {
  return static_cast<float>(piece) / 32768.0F - 1.0F + 1.0F / 65536.0F;
}
// +1 with probability (1 + m/b)/2 over s.
LACONIC_HOST_DEVICE inline bool is_plus(float s, float m, float b) {
  const float threshold = s * b;
  return m > threshold || (m == threshold && s < 0);
}
// clamp(m/b, -1, 1), 0 where b is 0.
LACONIC_HOST_DEVICE inline float ratio_of(float m, float b) {
  if (b == 0) return 0;
  const float u = m / b;
  return u < -1.0F ? -1.0F : 1.0F < u ? 1.0F : u;
}

// The mean of `voters` signs of which `plus` are +1; 0 of none.
LACONIC_HOST_DEVICE inline float mean_of_count(int plus, int voters) {
  return voters == 0 ? 0.0F : static_cast<float>(2 * plus) / static_cast<float>(voters) - 1.0F;
}

// Bits of the number of +1 among n ranks: ceil(log2(n + 1)).
LACONIC_HOST_DEVICE constexpr int planes_of(int ranks) noexcept {
  int planes = 0;
  while ((1 << planes) <= ranks) ++planes;
  return planes;
}

// The moments that signs are drawn from.
struct BirderMoments {
  float beta, one_minus_beta;
};
// m = beta*m + (1-beta)*g; b = beta*b + (1-beta)*|g|; where b < 2^-100, m = b = 0.
LACONIC_HOST_DEVICE inline void next_moments(const BirderMoments& step, float g, float& m,
                                             float& b) {
  m = step.beta * m + step.one_minus_beta * g;
  b = step.beta * b + step.one_minus_beta * fabsf(g);
  if (b < 0x1p-100F) m = b = 0;
}
LACONIC_HOST_DEVICE inline float signed_step(float lr, float decay, float r, float x) {
  return x * decay - lr * r;
}

// Votes: signs without randomness.

// A value of 0, and votes that are equal, count as +1 where k + t is even and as -1 elsewhere, k the
// position in the vector and t the step.
struct Ties {
  bool odd = false;  // t is
};
LACONIC_HOST_DEVICE inline bool tie_is_plus(Ties ties, std::uint64_t k) {
  return (k % 2 == 0) != ties.odd;
}
LACONIC_HOST_DEVICE inline bool votes_plus(float c, bool tie) { return c > 0 || (c == 0 && tie); }
LACONIC_HOST_DEVICE inline bool majority_is_plus(int plus, int voters, bool tie) {
  return 2 * plus > voters || (2 * plus == voters && tie);
}

// Momentum whose sign moves the weights.

struct LionMoments {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
};
struct LionStep {
  LionMoments moments;
  float lr, decay;  // decay = 1 - lr*wd
};
// Returns c = beta1*m + (1-beta1)*g; then m = beta2*m + (1-beta2)*g.
LACONIC_HOST_DEVICE inline float next_lion(const LionMoments& step, float g, float& m) {
  const float c = step.beta1 * m + step.one_minus_beta1 * g;
  m = step.beta2 * m + step.one_minus_beta2 * g;
  return c;
}
// x = x*decay - lr*sgn(c), where sgn(0) = 0.
LACONIC_HOST_DEVICE inline void lion_element(const LionStep& step, float g, float& m, float& x) {
  const float c = next_lion(step.moments, g, m);
  x = x * step.decay;
  if (c != 0) x = x - copysignf(step.lr, c);
}

// SGD with momentum.

struct SgdmStep {
  float momentum, lr, decay;  // decay = 1 - lr*wd
};
LACONIC_HOST_DEVICE inline void sgdm_element(const SgdmStep& step, float g, float& m, float& x) {
  m = step.momentum * m + g;
  x = x * step.decay - step.lr * m;
}

// The Adam family. D is sqrt(max(v, floor) * correction) + epsilon. An element with v == 0 is dead:
// its m (and pending) is held at 0 and only weight decay moves it.

struct AdamStep {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float rate;        // a_t = lr/(1 - beta1^t)
  float decay;       // 1 - lr*wd; at a sync: w, their product over the interval
  float correction;  // 1/(1 - beta2^J)
  float epsilon;
  float floor = 0;  // 0.01 * the block's mean v where a coded mean is applied, else 0
};

LACONIC_HOST_DEVICE inline float next_momentum(const AdamStep& step, float g, float m) {
  return step.beta1 * m + step.one_minus_beta1 * g;
}
LACONIC_HOST_DEVICE inline float next_variance(const AdamStep& step, float g, float v) {
  return step.beta2 * v + step.one_minus_beta2 * (g * g);
}
// The comparison is false for NaN: a NaN in v is not hidden by the floor, as by fmaxf.
template <typename Step>
LACONIC_HOST_DEVICE inline float divisor(const Step& step, float v, float floor) {
  return sqrtf((v < floor ? floor : v) * step.correction) + step.epsilon;
}
LACONIC_HOST_DEVICE inline void adamw_element(const AdamStep& step, float g, float& m, float& v,
                                              float& x) {
  m = next_momentum(step, g, m);
  v = next_variance(step, g, v);
  x = x * step.decay - (step.rate * m) / divisor(step, v, v);
}
LACONIC_HOST_DEVICE inline void adam_apply_element(const AdamStep& step, float v, float& m,
                                                   float& x) {
  x = x * step.decay;
  if (v == 0)
    m = 0;
  else
    x = x - (step.rate * m) / divisor(step, v, step.floor);
}
// `next_m` is the momentum that this rank would have by itself.
LACONIC_HOST_DEVICE inline float pending_message(const AdamStep& step, float shrink, float next_m,
                                                 float pending) {
  return pending * shrink + step.rate * next_m;
}
LACONIC_HOST_DEVICE inline void pending_local(const AdamStep& step, float shrink, float next_m,
                                              float v, float& m, float& pending, float& x) {
  if (v == 0) {
    m = pending = 0;
    return;
  }
  m = next_m;
  const float d = step.rate * m;
  pending = pending * shrink + d;
  x = x - d / divisor(step, v, step.floor);
}
// Returns x_sync. `m` is null where it stays.
LACONIC_HOST_DEVICE inline float pending_sync(const AdamStep& step, float inverse_gain, float mean,
                                              float v, float x_sync, float* m) {
  const float decayed = step.decay * x_sync;
  if (m) *m = v == 0 ? 0.0F : mean * inverse_gain;
  return v == 0 ? decayed : decayed - mean / divisor(step, v, step.floor);
}

// An Adam step whose length is the tensor's to decide.

struct TrustStep {
  float scale;       // 1/(1 - beta1^t)
  float correction;  // 1/(1 - beta2^J)
  float epsilon;
  float weight_decay;
  float floor = 0;  // as AdamStep's
};

LACONIC_HOST_DEVICE inline float trust_direction_of(const TrustStep& step, float m, float v,
                                                    float x) {
  return (m * step.scale) / divisor(step, v, step.floor) + step.weight_decay * x;
}
LACONIC_HOST_DEVICE inline float trust_moved(const TrustStep& step, float rate, float m, float v,
                                             float x) {
  return x - rate * trust_direction_of(step, m, v, x);
}

// Outer rules: how the mean displacement moves the weights that all ranks share, and how a rank's
// own weights follow: they become the shared ones, keep what was learnt since a snapshot, or blend.

enum class OuterRule : std::uint8_t { kAverage, kNesterov, kMomentum, kSign };
enum class Follow : std::uint8_t { kEqual, kKeep, kBlend };

struct OuterStep {
  OuterRule rule = OuterRule::kAverage;
  Follow follow = Follow::kEqual;
  float penalty = 1;        // divides the displacement
  float rate = 1;           // eta; kSign: eta*gamma
  float momentum = 0;       // mu
  float clip = 0;           // bound of |M|; infinity: none
  float inverse_gamma = 0;  // kSign, as what follows
  float beta1 = 0, one_minus_beta1 = 0, beta2 = 0, one_minus_beta2 = 0;
  float decay = 1;            // 1 - lambda*eta*gamma
  float own = 0, shared = 1;  // kBlend: alpha, 1 - alpha
};

// A NaN stays.
LACONIC_HOST_DEVICE inline float bounded(float value, float bound) {
  return value < -bound ? -bound : bound < value ? bound : value;
}
// 0 of 0 and of NaN.
LACONIC_HOST_DEVICE inline float sign_of(float value) {
  return value > 0 ? 1.0F : value < 0 ? -1.0F : 0.0F;
}
// Returns the shared weight; `m` is the outer momentum.
LACONIC_HOST_DEVICE inline float outer_weight(const OuterStep& step, float mean, float x_sync,
                                              float& m) {
  float d = mean / step.penalty;
  if (step.rule == OuterRule::kAverage) return x_sync - step.rate * d;
  if (step.rule == OuterRule::kSign) {
    d = d * step.inverse_gamma;
    const float c = step.beta1 * m + step.one_minus_beta1 * d;
    m = bounded(step.beta2 * m + step.one_minus_beta2 * d, step.clip);
    return x_sync * step.decay - step.rate * sign_of(c);
  }
  m = bounded(step.momentum * m + d, step.clip);
  return x_sync - step.rate * (step.rule == OuterRule::kNesterov ? d + step.momentum * m : m);
}
// The rank's own weight; the shared one where its own is not finite.
LACONIC_HOST_DEVICE inline float following(const OuterStep& step, float x_sync, float x,
                                           float snapshot) {
  if (step.follow == Follow::kEqual) return x_sync;
  if (step.follow == Follow::kBlend)
    return is_finite(x) ? step.own * x + step.shared * x_sync : x_sync;
  const float moved = x - snapshot;
  return is_finite(moved) ? x_sync + moved : x_sync;
}

}  // namespace laconic::kernels
