#include "laconic/kernels/reference.h"

#include <algorithm>
#include <cmath>

#include "laconic/kernels/reference_bits.h"

namespace laconic::kernels::reference {
namespace {

bool is_dead(const float* live, std::size_t k) { return live != nullptr && live[k] == 0; }

void add_to_lane(Lanes& lanes, std::size_t k, float p, Norm norm) {
  lanes.lane[k % 16] += weight_of(p, norm);
}

float value_of(const Coded& coded, std::size_t k) {
  return decoded(coded.scale, bit_of(coded.bits, k));
}

// Lane k % 16 becomes |p| where that is larger.
void keep_largest(Lanes& lanes, std::size_t k, float p) {
  lanes.lane[k % 16] = larger_magnitude(lanes.lane[k % 16], p);
}

// The field of element k.
int field_of(const std::uint8_t* codes, int bits, std::size_t k) {
  const std::size_t at = k * static_cast<std::size_t>(bits);
  const int field = codes[at / 8] >> (at % 8) & ((1 << bits) - 1);
  return field < 1 << (bits - 1) ? field : field - (1 << bits);
}

void set_field(std::uint8_t* codes, int bits, std::size_t k, int code) {
  const std::size_t at = k * static_cast<std::size_t>(bits);
  const int field = (code & ((1 << bits) - 1)) << (at % 8);
  codes[at / 8] = static_cast<std::uint8_t>(codes[at / 8] | field);
}

float value_of(const Integers& from, int bits, std::size_t k) {
  return decoded(from.scale, field_of(from.codes, bits, k));
}

// The s of element k of the vector.
float uniform(const Draw& draw, std::uint64_t k) {
  const PhiloxCounter random = philox({static_cast<std::uint32_t>(draw.stream), draw.rank,
                                       draw.bucket, static_cast<std::uint32_t>(k / 8)},
                                      draw.key);
  return uniform_of(random[k % 8 / 2] >> (k % 2 * 16) & 0xFFFF);
}

}  // namespace

float fold(const Lanes& lanes) noexcept {
  Lanes sum = lanes;
  for (int half = 8; half >= 1; half /= 2)
    for (int j = 0; j < half; ++j) sum.lane[j] += sum.lane[j + half];
  return sum.lane[0];
}

float scale_of(float sum, std::size_t count, Norm norm) noexcept {
  return scale_of_sum(sum, static_cast<std::int64_t>(count), norm);
}

void measure(const float* a, const float* e, const float* live, std::size_t count, Norm norm,
             float* p, Lanes& lanes) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    p[k] = is_dead(live, k) ? 0.0F : e != nullptr ? a[k] + e[k] : a[k];
    add_to_lane(lanes, k, p[k], norm);
  }
}

void code(const float* p, const float* live, std::size_t count, float scale, float gain, float* e,
          std::uint8_t* bits) noexcept {
  clear_words(bits, words_of(count));
  for (std::size_t k = 0; k < count; ++k) {
    if (is_dead(live, k)) {
      e[k] = 0;
      continue;
    }
    if (std::signbit(p[k])) set_bit(bits, k);
    e[k] = residual_of(p[k], scale, gain);
  }
}

std::size_t encode_signs(const float* a, const float* e, const float* live, std::size_t count,
                         std::size_t block, Norm norm, float gain, float* left, float* scales,
                         std::uint8_t* bits) noexcept {
  for (std::size_t at = 0; at < count; at += block) {
    const std::size_t n = count - at < block ? count - at : block;
    const float* alive = live ? live + at : nullptr;
    Lanes lanes;
    for (std::size_t k = at; k < at + n; ++k)
      if (!is_dead(live, k)) add_to_lane(lanes, k - at, a[k] + e[k], norm);
    const float sum = reference::fold(lanes);
    if (!std::isfinite(sum)) return at;
    for (std::size_t k = at; k < at + n; ++k) left[k] = is_dead(live, k) ? 0.0F : a[k] + e[k];
    *scales++ = reference::scale_of(sum, alive ? reference::count_live(alive, n) : n, norm);
    code(left + at, alive, n, scales[-1], gain, left + at, bits + at / 8);
  }
  return count;
}

void serve(const Coded* coded, int codes, float factor, const float* e, const float* live,
           std::size_t count, Norm norm, float* q, Lanes& lanes) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    float sum = value_of(coded[0], k);
    for (int i = 1; i < codes; ++i) sum += value_of(coded[i], k);
    q[k] = is_dead(live, k) ? 0.0F : sum * factor + e[k];
    add_to_lane(lanes, k, q[k], norm);
  }
}

void decode(Coded coded, std::size_t count, float* out) noexcept {
  for (std::size_t k = 0; k < count; ++k) out[k] = value_of(coded, k);
}

std::size_t count_live(const float* live, std::size_t count) noexcept {
  std::size_t alive = 0;
  for (std::size_t k = 0; k < count; ++k) alive += live[k] != 0 ? 1 : 0;
  return alive;
}

void measure_largest(const float* a, const float* e, const float* live, std::size_t count, float* p,
                     Lanes& lanes) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    p[k] = is_dead(live, k) ? 0.0F : e != nullptr ? a[k] + e[k] : a[k];
    keep_largest(lanes, k, p[k]);
  }
}

float largest_of(const Lanes& lanes) noexcept {
  Lanes all;
  for (const float lane : lanes.lane) keep_largest(all, 0, lane);
  return all.lane[0];
}

void to_integers(const float* p, const float* live, std::size_t count, int bits, float scale,
                 float gain, float* e, std::uint8_t* codes) noexcept {
  clear_words(codes, words_of(count) * static_cast<std::size_t>(bits));
  const float inverse = inverse_scale(scale);
  for (std::size_t k = 0; k < count; ++k) {
    if (is_dead(live, k)) {
      e[k] = 0;
      continue;
    }
    const int code = code_of(p[k], inverse, largest_code(bits));
    set_field(codes, bits, k, code);
    e[k] = residual_of(p[k], scale, code, gain);
  }
}

std::size_t encode_integers(const float* a, const float* e, const float* live, std::size_t count,
                            std::size_t block, int bits, float most, float gain, float* left,
                            float* scales, std::uint8_t* codes) noexcept {
  for (std::size_t at = 0; at < count; at += block) {
    const std::size_t n = count - at < block ? count - at : block;
    Lanes lanes;
    for (std::size_t k = at; k < at + n; ++k)
      if (!is_dead(live, k)) keep_largest(lanes, k, a[k] + e[k]);
    const float largest = reference::largest_of(lanes);
    const float scale = integer_scale(largest, bits);
    if (!std::isfinite(largest) || scale > most) return at;
    *scales++ = scale;
    for (std::size_t k = at; k < at + n; ++k) left[k] = is_dead(live, k) ? 0.0F : a[k] + e[k];
    to_integers(left + at, live ? live + at : nullptr, n, bits, scale, gain, left + at,
                codes + at * static_cast<std::size_t>(bits) / 8);
  }
  return count;
}

void sum_integers(const Integers* from, int ranks, int bits, float factor, const float* e,
                  const float* live, std::size_t count, float* q, Lanes& lanes) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    float sum = value_of(from[0], bits, k);
    for (int r = 1; r < ranks; ++r) sum += value_of(from[r], bits, k);
    const float mean = sum * factor;
    q[k] = is_dead(live, k) ? 0.0F : e != nullptr ? mean + e[k] : mean;
    keep_largest(lanes, k, q[k]);
  }
}

void from_integers(Integers from, int bits, std::size_t count, float* out) noexcept {
  for (std::size_t k = 0; k < count; ++k) out[k] = value_of(from, bits, k);
}

void draw(const Draw& draw, std::uint64_t begin, const float* m, const float* b, std::size_t count,
          std::uint8_t* bits) noexcept {
  clear_words(bits, words_of(count));
  for (std::size_t k = 0; k < count; ++k)
    if (is_plus(uniform(draw, begin + k), m[k], b != nullptr ? b[k] : 1.0F)) set_bit(bits, k);
}

bool birder_moments(const BirderMoments& step, const float* g, float* m, float* b,
                    std::size_t count, const Draw& draw, std::uint64_t begin, std::uint64_t wanted,
                    std::uint8_t* bits, std::uint64_t* active) noexcept {
  *active = 0;
  if (!all_finite(g, count)) return false;
  for (std::size_t k = 0; k < count; ++k) next_moments(step, g[k], m[k], b[k]);
  for (std::size_t w = 0; w < words_of(count); ++w) {
    if ((wanted >> w & 1) == 0) continue;
    const std::size_t first = w * 64;
    reference::draw(draw, begin + first, m + first, b + first,
                    std::min<std::size_t>(64, count - first), bits + w * 8);
  }
  *active = activity(g, count);
  return true;
}

void count_signs(const std::uint8_t* const* bits, const std::uint8_t* const* active, int ranks,
                 std::size_t words, std::uint8_t* counts, std::uint16_t* voters) noexcept {
  const int planes = planes_of(ranks);
  clear_words(counts, words * static_cast<std::size_t>(planes));
  for (std::size_t w = 0; w < words; ++w) {
    int all = 0;
    for (int i = 0; i < ranks; ++i) all += bit_of(active[i], w) ? 1 : 0;
    voters[w] = static_cast<std::uint16_t>(all);
    std::uint8_t* word = counts + w * static_cast<std::size_t>(planes) * 8;
    for (std::size_t k = 0; k < 64; ++k) {
      int plus = 0;
      for (int i = 0; i < ranks; ++i)
        plus += bit_of(active[i], w) && bit_of(bits[i], w * 64 + k) ? 1 : 0;
      for (int plane = 0; plane < planes; ++plane)
        if ((plus >> plane & 1) != 0) set_bit(word, static_cast<std::size_t>(plane) * 64 + k);
    }
  }
}

void redraw(const Draw& draw, std::uint64_t begin, const std::uint8_t* counts,
            const std::uint16_t* voters, int planes, std::size_t count,
            std::uint8_t* bits) noexcept {
  clear_words(bits, words_of(count));
  for (std::size_t k = 0; k < count; ++k) {
    const int all = voters[k / 64];
    if (all == 0) continue;
    const int surplus = 2 * count_of(counts, planes, k) - all;
    if (is_plus(uniform(draw, begin + k), static_cast<float>(surplus), static_cast<float>(all)))
      set_bit(bits, k);
  }
}

static float sign_at(const std::uint8_t* bits, const std::uint8_t* active, std::size_t k) {
  return !bit_of(active, k / 64) ? 0.0F : bit_of(bits, k) ? 1.0F : -1.0F;
}

void signs_to_floats(const std::uint8_t* bits, const std::uint8_t* active, std::size_t count,
                     float* out) noexcept {
  for (std::size_t k = 0; k < count; ++k) out[k] = sign_at(bits, active, k);
}

void sign_update(float lr, float decay, const std::uint8_t* bits, const std::uint8_t* active,
                 float* x, std::size_t count) noexcept {
  for (std::size_t k = 0; k < count; ++k)
    x[k] = signed_step(lr, decay, sign_at(bits, active, k), x[k]);
}

void counts_to_floats(const std::uint8_t* counts, const std::uint16_t* voters, int planes,
                      std::size_t count, float* out) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    const int all = voters[k / 64];
    out[k] = mean_of_count(count_of(counts, planes, k), all);
  }
}

void ratio(const float* m, const float* b, std::size_t count, float* out) noexcept {
  for (std::size_t k = 0; k < count; ++k) out[k] = ratio_of(m[k], b != nullptr ? b[k] : 1.0F);
}

void ratio_to_bf16(const float* m, const float* b, std::size_t count, std::uint16_t* out) noexcept {
  for (std::size_t k = 0; k < count; ++k)
    out[k] = bf16_of(ratio_of(m[k], b != nullptr ? b[k] : 1.0F));
}

std::uint64_t activity(const float* values, std::size_t count) noexcept {
  std::uint64_t words = 0;
  for (std::size_t k = 0; k < count; ++k)
    if (values[k] != 0) words |= std::uint64_t{1} << (k / 64);
  return words;
}

void add(const float* a, std::size_t count, float* acc) noexcept {
  for (std::size_t k = 0; k < count; ++k) acc[k] = acc[k] + a[k];
}

void scale(float* a, std::size_t count, float factor) noexcept {
  for (std::size_t k = 0; k < count; ++k) a[k] = a[k] * factor;
}

void blend(float keep, const float* r, const float* live, std::size_t count, float* e) noexcept {
  for (std::size_t k = 0; k < count; ++k)
    e[k] = is_dead(live, k) ? 0.0F : blended(keep, r[k], e[k]);
}

void sum(const float* const* in, int inputs, std::size_t count, float factor, float* out) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    float sum = in[0][k];
    for (int i = 1; i < inputs; ++i) sum += in[i][k];
    out[k] = sum * factor;
  }
}

void sum_bf16(const std::uint16_t* const* in, int inputs, std::size_t count, float factor,
              float* out) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    float sum = float_of_bf16(in[0][k]);
    for (int i = 1; i < inputs; ++i) sum += float_of_bf16(in[i][k]);
    out[k] = sum * factor;
  }
}

void mean_bf16(const std::uint16_t* const* in, int inputs, std::size_t count, float factor,
               float* values, std::uint16_t* out) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    const auto input = [=](int i) { return float_of_bf16(in[i] ? in[i][k] : bf16_of(values[k])); };
    float sum = input(0);
    for (int i = 1; i < inputs; ++i) sum += input(i);
    out[k] = bf16_of(sum * factor);
    values[k] = float_of_bf16(out[k]);
  }
}

void to_bf16(const float* in, std::size_t count, std::uint16_t* out) noexcept {
  for (std::size_t k = 0; k < count; ++k) out[k] = bf16_of(in[k]);
}

void from_bf16(const std::uint16_t* in, std::size_t count, float* out) noexcept {
  for (std::size_t k = 0; k < count; ++k) out[k] = float_of_bf16(in[k]);
}

bool all_finite(const float* g, std::size_t count) noexcept {
  return std::all_of(g, g + count, [](float value) { return is_finite(value); });
}

float sum_of_squares(const float* a, std::size_t count) noexcept {
  Lanes lanes;
  for (std::size_t k = 0; k < count; ++k) add_to_lane(lanes, k, a[k], Norm::kL2);
  return reference::fold(lanes);
}

void sgdm(const SgdmStep& step, const float* g, float* m, float* x, std::size_t count) noexcept {
  for (std::size_t k = 0; k < count; ++k) sgdm_element(step, g[k], m[k], x[k]);
}

void adamw(const AdamStep& step, const float* g, float* m, float* v, float* x,
           std::size_t count) noexcept {
  for (std::size_t k = 0; k < count; ++k) adamw_element(step, g[k], m[k], v[k], x[k]);
}

void adam_moments(const AdamStep& step, const float* g, float* m, float* v, std::size_t count,
                  Lanes& lanes) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    m[k] = next_momentum(step, g[k], m[k]);
    v[k] = next_variance(step, g[k], v[k]);
    lanes.lane[k % 16] += v[k];
  }
}

void adam_apply(const AdamStep& step, float* m, const float* v, float* x, float* copy,
                std::size_t count) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    adam_apply_element(step, v[k], m[k], x[k]);
    if (copy != nullptr) copy[k] = x[k];
  }
}

void momentum(const AdamStep& step, const float* g, const float* m, float* out,
              std::size_t count) noexcept {
  for (std::size_t k = 0; k < count; ++k)
    out[k] = g != nullptr ? next_momentum(step, g[k], m[k]) : m[k];
}

void one_bit_apply(const AdamStep& step, const float* mean, float* m, const float* v, float* x,
                   std::size_t count) noexcept {
  std::copy_n(mean, count, m);
  reference::adam_apply(step, m, v, x, nullptr, count);
}

void zero_one_message(const AdamStep& step, float shrink, const float* g, const float* m,
                      const float* pending, float* out, std::size_t count) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    const float next = g != nullptr ? next_momentum(step, g[k], m[k]) : m[k];
    out[k] = pending_message(step, shrink, next, pending[k]);
  }
}

void zero_one_local(const AdamStep& step, float shrink, const float* g, float* m, const float* v,
                    float* pending, float* x, std::size_t count) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    const float next = g != nullptr ? next_momentum(step, g[k], m[k]) : m[k];
    pending_local(step, shrink, next, v[k], m[k], pending[k], x[k]);
  }
}

void zero_one_sync(const AdamStep& step, float inverse_gain, const float* mean, float* m,
                   const float* v, float* x_sync, float* x, std::size_t count) noexcept {
  for (std::size_t k = 0; k < count; ++k)
    x[k] = x_sync[k] =
        pending_sync(step, inverse_gain, mean[k], v[k], x_sync[k], m != nullptr ? m + k : nullptr);
}

void trust_squares(const TrustStep& step, const float* m, const float* v, const float* x,
                   std::size_t count, std::size_t at, Lanes& of_u, Lanes& of_x) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    const float u = trust_direction_of(step, m[k], v[k], x[k]);
    of_u.lane[(at + k) % 16] += u * u;
    of_x.lane[(at + k) % 16] += x[k] * x[k];
  }
}

void trust_apply(const TrustStep& step, float rate, const float* m, const float* v, float* x,
                 std::size_t count) noexcept {
  for (std::size_t k = 0; k < count; ++k) x[k] = trust_moved(step, rate, m[k], v[k], x[k]);
}

void birder_update(float lr, float decay, const float* r, float* x, std::size_t count) noexcept {
  for (std::size_t k = 0; k < count; ++k) x[k] = signed_step(lr, decay, r[k], x[k]);
}

void displacement(const float* x_sync, const float* x, std::size_t count, float* out) noexcept {
  for (std::size_t k = 0; k < count; ++k) out[k] = x_sync[k] - x[k];
}

void outer_update(const OuterStep& step, const float* mean, float* momentum, const float* snapshot,
                  float* x_sync, float* x, std::size_t count) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    float none = 0;
    x_sync[k] = outer_weight(step, mean[k], x_sync[k], momentum ? momentum[k] : none);
    x[k] = following(step, x_sync[k], x[k], snapshot ? snapshot[k] : 0);
  }
}

}  // namespace laconic::kernels::reference
