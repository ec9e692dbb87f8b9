#include "app/sweeps.h"

#include <algorithm>

#include "laconic/collective/mean.h"
#include "laconic/core/random.h"
#include "laconic/kernels/dense.h"
#include "laconic/kernels/random_sign.h"
#include "laconic/kernels/sign.h"
#include "laconic/kernels/update.h"

namespace laconic::app {
namespace {

namespace k = kernels;

constexpr std::size_t kTile = Mean::kTile;
constexpr k::AdamStep kStep{0.9F, 0.1F, 0.999F, 0.001F, 1e-4F, 1.0F, 1.0F, 1e-8F, 1e-5F};

thread_local float tile[kTile];

Buffer<float> random_floats(std::size_t n, float size) {
  Buffer<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto r =
        philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0}, {1, 2});
    values[i] = static_cast<float>(static_cast<std::int32_t>(r[0])) * 0x1p-31F * size;
  }
  return values;
}

template <typename Work>
void for_each_tile(const Arrays& a, const Work& work) {
  for (std::size_t i = 0; i < a.size(); i += kTile) work(i, std::min(kTile, a.size() - i));
}

const float* finite_gradient(const Arrays& a, std::size_t i, std::size_t count) {
  return k::all_finite(a.g.data() + i, count) ? a.g.data() + i : nullptr;
}

// `residual`: added to the tile; null where the tile holds it already.
void code_tile(Arrays& a, std::size_t i, std::size_t count, const float* residual) {
  k::Lanes lanes;
  k::measure(tile, residual, nullptr, count, k::Norm::kL2, tile, lanes);
  a.scales[i / kTile] = k::scale_of(k::fold(lanes), count, k::Norm::kL2);
  k::code(tile, nullptr, count, a.scales[i / kTile], 1.0F, a.e.data() + i, a.bits.data() + i / 8);
}

}  // namespace

Arrays::Arrays(std::size_t n)
    : g(random_floats(n, 0.1F)),
      x(random_floats(n, 1.0F)),
      m(n),
      v(n),
      e(n),
      scales(n / kTile + 1),
      bits(n / 8 + 512) {
  std::fill_n(v.data(), n, 0.01F);
}

void one_bit_code(Arrays& a) {
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::momentum(kStep, finite_gradient(a, i, count), a.m.data() + i, tile, count);
    code_tile(a, i, count, a.e.data() + i);
  });
}

void one_bit_take(Arrays& a) {
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::decode({a.scales[i / kTile], a.bits.data() + i / 8}, count, tile);
    k::one_bit_apply(kStep, tile, a.m.data() + i, a.v.data() + i, a.x.data() + i, count);
  });
}

void zero_one_code(Arrays& a) {
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::zero_one_message(kStep, 1.0F, finite_gradient(a, i, count), a.m.data() + i, a.e.data() + i,
                        tile, count);
    code_tile(a, i, count, nullptr);
  });
}

// The gradient's memory stands for the weights of the last sync.
void zero_one_take(Arrays& a) {
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::decode({a.scales[i / kTile], a.bits.data() + i / 8}, count, tile);
    k::zero_one_sync(kStep, 1.0F, tile, a.m.data() + i, a.v.data() + i, a.g.data() + i,
                     a.x.data() + i, count);
  });
}

void birder_code(Arrays& a) {
  const k::Draw draw{.key = {1, 1}};
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    if (finite_gradient(a, i, count) == nullptr) return;
    k::birder_moments({0.9F, 0.1F}, a.g.data() + i, a.m.data() + i, a.e.data() + i, count, draw, i,
                      ~0ULL, a.bits.data() + i / 8);
  });
}

void birder_take(Arrays& a) {
  const std::uint8_t active[8] = {255, 255, 255, 255, 255, 255, 255, 255};
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::signs_to_floats(a.bits.data() + i / 8, active, count, tile);
    k::birder_update(1e-4F, 1.0F, tile, a.x.data() + i, count);
  });
}

}  // namespace laconic::app
