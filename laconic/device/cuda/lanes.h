#pragma once

#include "laconic/device/cuda/block.h"

// Sums and maxima over blocks in shared memory, in the specified order: lane j has elements j, j+16,
// j+32, … of its block, one after the other, then 8, 4, 2 and 1 lanes are added to the others.
namespace laconic::cuda {

constexpr int kLanes = 16;

struct SumOfWeights {
  Norm norm;

  __device__ float add(float sum, float p) const { return sum + weight_of(p, norm); }
  __device__ float join(float a, float b) const { return a + b; }
};

struct LargestMagnitude {
  __device__ float add(float most, float p) const { return larger_magnitude(most, p); }
  __device__ float join(float a, float b) const { return larger_magnitude(a, b); }
};

template <class Measure>
__device__ float fold(const Measure& measure, float lane) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    lane = measure.join(lane, swap_lanes(lane, half));
  return lane;
}

// What this thread has of one block so far, in its first warp's lanes; `count` elements follow.
// value_of(k) is that of element k.
template <class Measure, class Value>
__device__ float measure_on(const Measure& measure, float lane, int count, const Value& value_of) {
  if (thread() < kLanes)
    for (int k = thread(); k < count; k += kLanes) lane = measure.add(lane, value_of(k));
  return lane;
}

// take(j, measured) of those of `blocks` blocks of `block` elements that are wanted(j), by one thread
// each, always the same; `count` elements are there in all. value_of(j, k) is that of element k, which
// lies in block j.
template <class Measure, class Wanted, class Value, class Take>
__device__ void measure_blocks(const Measure& measure, int blocks, int block, int count,
                               const Wanted& wanted, const Value& value_of, const Take& take) {
  const int number = thread() % kLanes;
  for (int first = thread() / kWarp * 2; first < blocks; first += kThreads / kLanes) {
    const int j = first + thread() % kWarp / kLanes;
    const bool mine = j < blocks && wanted(j);
    const int end = (j + 1) * block < count ? (j + 1) * block : count;
    float lane = 0;
    if (mine) {
      LACONIC_UNROLL_8
      for (int k = j * block + number; k < end; k += kLanes)
        lane = measure.add(lane, value_of(j, k));
    }
    lane = fold(measure, lane);
    if (mine && number == 0) take(j, lane);
  }
}

}  // namespace laconic::cuda
