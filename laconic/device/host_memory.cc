#include <algorithm>
#include <cstring>

#include "laconic/core/error.h"
#include "laconic/device/host.h"
#include "laconic/kernels/dense.h"
#include "laconic/kernels/sign.h"

namespace laconic::inline device {
namespace {

// The sum of magnitudes over a block, rounded as specified.
float sum_over(const float* values, std::size_t count, bool in_parts, float* scratch) {
  kernels::Lanes lanes;
  double total = 0;
  for (std::size_t at = 0; at < count; at += kTile) {
    const std::size_t n = std::min(kTile, count - at);
    kernels::measure(values + at, nullptr, nullptr, n, kernels::Norm::kL1, scratch, lanes);
    if (!in_parts) continue;
    total += kernels::fold(lanes);
    lanes = {};
  }
  return in_parts ? static_cast<float>(total) : kernels::fold(lanes);
}

// work(begin, count, tile, thread) for every tile.
template <typename Work>
void for_each_tile(Pool& pool, std::size_t elements, const Work& work) {
  pool.run((elements + kTile - 1) / kTile, [&](std::size_t tile, int thread) {
    work(tile * kTile, std::min(kTile, elements - tile * kTile), tile, thread);
  });
}

}  // namespace

std::string HostDevice::describe() const {
  return fmt::format("host, {} thread{}", pool_.threads(), pool_.threads() == 1 ? "" : "s");
}

void HostDevice::copy(const void* from, void* to, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}
void HostDevice::copy_in(const void* from_host, void* to, std::size_t bytes) {
  copy(from_host, to, bytes);
}
void HostDevice::copy_out(const void* from, void* to_host, std::size_t bytes) {
  copy(from, to_host, bytes);
}
void HostDevice::clear(void* at, std::size_t bytes) {
  if (bytes != 0) std::memset(at, 0, bytes);
}

void HostDevice::run_all(const UpdateFloors& pass) {
  const FloorTable& table = pass.floors;
  Counter dead{0};
  pool_.run(table.begins.size(), [&](std::size_t block, int thread) {
    const std::size_t begin = table.begins[block], count = table.end(block) - begin;
    float* v = pass.v + begin;
    const auto mean = [&] {
      return sum_over(v, count, pass.in_parts, scratch(thread)) / static_cast<float>(count);
    };
    float now = mean();
    if (pass.freeze) {
      std::replace(v, v + count, 0.0F, now);
      now = mean();
    }
    if (now == 0) dead.fetch_add(1, std::memory_order_relaxed);
    table.floors[block] = pass.on ? now * pass.factor : 0;
  });
  *pass.dead = dead.load();
}

void HostDevice::run_all(const TileSums& pass) {
  for_each_tile(pool_, pass.elements,
                [&](std::size_t begin, std::size_t count, std::size_t tile, int thread) {
                  const float* at = pass.values + begin;
                  float& sum = pass.sums[tile];
                  if (pass.checked && !kernels::all_finite(at, count))
                    sum = -1;
                  else if (pass.norm == kernels::Norm::kL2)
                    sum = kernels::sum_of_squares(at, count);
                  else
                    sum = sum_over(at, count, false, scratch(thread));
                });
}

void HostDevice::run_all(const Scaling& pass) {
  for_each_tile(pool_, pass.elements, [&](std::size_t begin, std::size_t count, std::size_t, int) {
    kernels::scale(pass.values + begin, count, pass.factor);
  });
}

void HostDevice::run_all(const Filling& pass) {
  std::fill_n(pass.values, pass.elements, pass.value);
}

}  // namespace laconic::inline device
