#include "laconic/device/cuda/lanes.h"

// Updates without an exchange, and measurements.
namespace laconic::cuda {
namespace {

// A block of floors.
struct Stretch {
  std::int64_t begin, count;
};
__device__ Stretch stretch_of(const std::int64_t* begins, std::int64_t blocks,
                              std::int64_t elements) {
  const std::int64_t block = blockIdx.x, begin = begins[block];
  return {begin, (block + 1 < blocks ? begins[block + 1] : elements) - begin};
}

struct Summed {
  float tile[kTile];
  float sum;
};

// The sum of the weights of `count` values, known to all threads. In parts: tiles are summed by
// themselves.
__device__ float sum_of(const float* values, std::int64_t count, Norm norm, bool in_parts,
                        Summed& s) {
  const SumOfWeights weights{norm};
  float lane = 0;
  double total = 0;
  for (std::int64_t tile = 0; tile < count; tile += kTile) {
    const int length = static_cast<int>(smaller(count - tile, kTile));
    LACONIC_ROLLED
    for (int k = thread(); k < length; k += kThreads) s.tile[k] = values[tile + k];
    __syncthreads();
    lane = measure_on(weights, lane, length, [&](int k) { return s.tile[k]; });
    if (in_parts) {
      total += static_cast<double>(fold(weights, lane));
      lane = 0;
    }
    __syncthreads();
  }
  const float all = fold(weights, lane);
  if (thread() == 0) s.sum = in_parts ? static_cast<float>(total) : all;
  __syncthreads();
  return s.sum;
}

}  // namespace

LACONIC_KERNEL local_step(LocalStepArguments of) {
  __shared__ int bad;
  const Stretch at = stretch_of(of.floors.begins, of.floors.blocks, of.floors.elements);
  if (thread() == 0) bad = 0;
  __syncthreads();
  bool good = true;
  LACONIC_ROLLED
  for (std::int64_t k = at.begin + thread(); k < at.begin + at.count; k += kThreads)
    good = good && is_finite(of.g[k]);
  if (!good) atomicOr(&bad, 1);
  __syncthreads();
  if (thread() == 0 && bad != 0) atomicAdd(of.bad, Counter{1});
  AdamStep step = of.step;
  step.floor = of.floors.floors[blockIdx.x];
  const bool with_gradient = bad == 0;
  LACONIC_ROLLED
  for (std::int64_t k = at.begin + thread(); k < at.begin + at.count; k += kThreads) {
    float m = of.m[k], pending = of.pending[k], x = of.x[k];
    const float next = with_gradient ? next_momentum(step, of.g[k], m) : m;
    pending_local(step, of.shrink, next, of.v[k], m, pending, x);
    of.m[k] = m;
    of.pending[k] = pending;
    of.x[k] = x;
  }
}

LACONIC_KERNEL moments_apply(MomentsApplyArguments of) {
  __shared__ int marked;
  const Stretch at = stretch_of(of.floors.begins, of.floors.blocks, of.floors.elements);
  if (thread() == 0) marked = 0;
  __syncthreads();
  const std::int64_t words = (at.count + kWord - 1) / kWord;
  for (std::int64_t word = thread(); word < words; word += kThreads)
    if (of.left[at.begin / kWord + word] != 0) atomicOr(&marked, 1);
  __syncthreads();
  if (marked != 0) return;
  AdamStep step = of.step;
  step.floor = of.floors.floors[blockIdx.x];
  LACONIC_ROLLED
  for (std::int64_t k = at.begin + thread(); k < at.begin + at.count; k += kThreads) {
    float m = of.m[k], x = of.x[k];
    adam_apply_element(step, of.v[k], m, x);
    of.m[k] = m;
    of.x[k] = x;
    if (of.copy != nullptr) of.copy[k] = x;
  }
}

LACONIC_KERNEL update_floors(FloorsArguments of) {
  __shared__ Summed summed;
  const Stretch at = stretch_of(of.begins, of.blocks, of.elements);
  float* v = of.v + at.begin;
  const auto mean_of = [&] {
    return sum_of(v, at.count, Norm::kL1, of.in_parts != 0, summed) / static_cast<float>(at.count);
  };
  float mean = mean_of();
  if (of.freeze != 0) {
    // A thread reads again what it wrote itself.
    LACONIC_ROLLED
    for (std::int64_t k = thread(); k < at.count; k += kThreads)
      if (v[k] == 0) v[k] = mean;
    mean = mean_of();
  }
  if (thread() != 0) return;
  of.floors[blockIdx.x] = of.on != 0 ? mean * of.factor : 0.0F;
  if (mean == 0) atomicAdd(of.dead, Counter{1});
}

LACONIC_KERNEL measure(MeasureArguments of) {
  __shared__ float tile[kTile];
  __shared__ int bad;
  const std::int64_t begin = blockIdx.x * std::int64_t{kTile};
  const int count = static_cast<int>(smaller(of.elements - begin, kTile));
  if (thread() == 0) bad = 0;
  __syncthreads();
  LACONIC_ROLLED
  for (int k = thread(); k < count; k += kThreads) {
    const float value = of.values[begin + k];
    tile[k] = value;
    if (!is_finite(value)) atomicOr(&bad, 1);
  }
  __syncthreads();
  const SumOfWeights weights{of.norm};
  const float sum = fold(weights, measure_on(weights, 0, count, [&](int k) { return tile[k]; }));
  if (thread() != 0) return;
  of.sums[blockIdx.x] = sum;
  if (of.finite != nullptr) of.finite[blockIdx.x] = bad == 0;
}

LACONIC_KERNEL scale(ScaleArguments of) {
  for (int i = thread(); i < kTile; i += kThreads) {
    const std::int64_t k = blockIdx.x * std::int64_t{kTile} + i;
    if (k < of.elements) of.a[k] = of.a[k] * of.factor;
  }
}

}  // namespace laconic::cuda
