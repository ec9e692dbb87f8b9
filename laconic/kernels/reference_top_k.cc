#include <algorithm>
#include <cmath>
#include <vector>

#include "laconic/kernels/reference.h"

namespace laconic::kernels::reference {
namespace {

bool is_dead(const float* live, std::size_t k) { return live != nullptr && live[k] == 0; }

// `width` bits from bit `at` on, low bits first.
void set_bits(std::uint8_t* bytes, std::size_t at, int width, std::size_t value) {
  for (int bit = 0; bit < width; ++bit, ++at)
    if ((value >> bit & 1) != 0)
      bytes[at / 8] = static_cast<std::uint8_t>(bytes[at / 8] | 1U << (at % 8));
}

std::size_t get_bits(const std::uint8_t* bytes, std::size_t at, int width) {
  std::size_t value = 0;
  for (int bit = 0; bit < width; ++bit, ++at)
    value |= static_cast<std::size_t>(bytes[at / 8] >> (at % 8) & 1) << bit;
  return value;
}

// All elements of a block.
std::vector<float> decoded_block(const Integers& from, std::size_t slots) {
  std::vector<float> all(kTopKBlock);
  for (std::size_t place = 0; place < slots; ++place) {
    const std::size_t index = get_bits(from.codes, 12 * place, 12);
    if (place > 0 && index == 0) break;
    const auto field = static_cast<int>(get_bits(from.codes, 12 * slots + 4 * place, 4));
    all[index] = decoded(from.scale, field < 8 ? field : field - 16);
  }
  return all;
}

// The indices of what is kept, ascending.
std::vector<std::size_t> kept(const std::vector<float>& p, const float* live, std::size_t slots) {
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < p.size(); ++k)
    if (!is_dead(live, k)) order.push_back(k);
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return std::fabs(p[a]) > std::fabs(p[b]); });
  order.resize(std::min(slots, order.size()));
  std::ranges::sort(order);
  return order;
}

}  // namespace

void to_top_k(const float* p, const float* live, std::size_t count, std::size_t slots,
              float largest, float gain, float* e, std::uint8_t* places) noexcept {
  const std::vector<float> values(p, p + count);
  const float scale = integer_scale(largest, kTopKBits), inverse = inverse_scale(scale);
  for (std::size_t k = 0; k < count; ++k)
    e[k] = is_dead(live, k) ? 0.0F : residual_of(values[k], scale, 0, gain);
  std::fill_n(places, top_k_bytes(slots), 0);
  std::size_t place = 0;
  for (const std::size_t k : kept(values, live, slots)) {
    const int code = code_of(values[k], inverse, largest_code(kTopKBits));
    e[k] = residual_of(values[k], scale, code, gain);
    set_bits(places, 12 * place, 12, k);
    set_bits(places, 12 * slots + 4 * place, 4, static_cast<std::size_t>(code & 0xF));
    ++place;
  }
}

void sum_top_k(const Integers* from, int ranks, std::size_t slots, float factor, const float* e,
               const float* live, std::size_t begin, std::size_t count, float* q,
               Lanes& lanes) noexcept {
  std::vector<float> sum(kTopKBlock);
  for (int r = 0; r < ranks; ++r) {
    const auto values = decoded_block(from[r], slots);
    for (std::size_t k = 0; k < kTopKBlock; ++k) sum[k] += values[k];
  }
  for (std::size_t k = 0; k < count; ++k) {
    const float mean = sum[begin + k] * factor;
    q[k] = e != nullptr ? mean + e[k] : mean;
  }
  reference::measure_largest(q, nullptr, live, count, q, lanes);
}

void from_top_k(Integers from, std::size_t slots, std::size_t begin, std::size_t count,
                float* out) noexcept {
  const auto all = decoded_block(from, slots);
  std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(begin), count, out);
}

}  // namespace laconic::kernels::reference
