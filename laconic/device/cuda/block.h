#pragma once

#include "laconic/device/cuda/arguments.h"

// Where a thread block works and how its threads meet. Kernels alone include this. Threads meet at
// barriers, in shared memory and within a warp, never through global memory: a kernel ends instead.
// Four thread blocks per multiprocessor leave a thread 64 registers. Loops over elements stay rolled
// as a rule: many warps hide the memory's latency, and code stays small.
#ifdef __CUDACC__
#define LACONIC_KERNEL extern "C" __global__ void __launch_bounds__(laconic::cuda::kThreads, 4)
#define LACONIC_UNROLL _Pragma("unroll")
#define LACONIC_UNROLL_4 _Pragma("unroll 4")
#define LACONIC_UNROLL_8 _Pragma("unroll 8")
#define LACONIC_ROLLED _Pragma("unroll 1")
#define LACONIC_ASSUME(condition) __builtin_assume(condition)
#else
#define LACONIC_KERNEL static void
#define LACONIC_UNROLL
#define LACONIC_UNROLL_4
#define LACONIC_UNROLL_8
#define LACONIC_ROLLED
#define LACONIC_ASSUME(condition)
#endif

namespace laconic::cuda {

using namespace kernels;

constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTileWords = kTile / kWord;

__device__ inline int thread() {
  const int number = static_cast<int>(threadIdx.x);
  LACONIC_ASSUME(number >= 0 && number < kThreads);
  return number;
}

// The exchanges within a warp. REQUIRES: all lanes come.
__device__ inline std::uint32_t ballot(bool mine) { return __ballot_sync(~0U, mine); }
__device__ inline float swap_lanes(float mine, int distance) {
  return __shfl_xor_sync(~0U, mine, distance);
}
__device__ inline std::uint32_t swap_lanes(std::uint32_t mine, int distance) {
  return __shfl_xor_sync(~0U, mine, distance);
}

__device__ inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
__device__ inline std::int64_t larger(std::int64_t a, std::int64_t b) { return a < b ? b : a; }
__device__ inline std::int64_t whole_words(std::int64_t elements) {
  return (elements + kWord - 1) / kWord * kWord;
}

// This row.
__device__ inline std::int64_t row_begin(const Rows& rows) {
  return rows.begin + blockIdx.y * rows.stride;
}
__device__ inline std::int64_t row_count(const Rows& rows) {
  return larger(smaller(rows.end - row_begin(rows), rows.length), 0);
}
template <class Byte>
__device__ Byte* row_message(Byte* payload, std::int64_t stride) {
  return payload + blockIdx.y * stride;
}

// Elements of a row: `begin` counts from the row's first element, `at` in the vector. `room` has
// those past the end too, in whole words. An item has less than 2^31 elements.
struct Span {
  std::int64_t begin, at;
  int count, room;
};
// What a thread block encodes: one item.
__device__ inline Span encoded_span(const Rows& rows) {
  const std::int64_t begin = blockIdx.x * rows.item;
  const std::int64_t count = larger(smaller(row_count(rows) - begin, rows.item), 0);
  const std::int64_t room = smaller(whole_words(rows.capacity) - begin, rows.item);
  return {begin, row_begin(rows) + begin, static_cast<int>(count), static_cast<int>(room)};
}
// What a thread block decodes: a tile of an item.
__device__ inline Span decoded_span(const Rows& rows) {
  const std::int64_t tiles = (rows.item + kTile - 1) / kTile;
  const std::int64_t in_item = blockIdx.x % tiles * kTile;
  const std::int64_t begin = blockIdx.x / tiles * rows.item + in_item;
  const std::int64_t length = smaller(rows.item - in_item, kTile);
  const std::int64_t count = larger(smaller(row_count(rows) - begin, length), 0);
  return {begin, row_begin(rows) + begin, static_cast<int>(count), static_cast<int>(count)};
}

// Which stretch of `length` elements k lies in; k only grows. Cheaper than a division for each.
class Cursor {
 public:
  __device__ explicit Cursor(int length) : length_(length), end_(length) {}
  __device__ int move_to(int k) {
    for (; k >= end_; end_ += length_) ++index_;
    return index_;
  }

 private:
  int length_, end_, index_ = 0;
};

// The last of `number` ascending begins that is not past k. REQUIRES: the first is not.
template <class Begin>
__device__ std::int64_t last_begun(std::int64_t number, std::int64_t k, const Begin& begin_of) {
  std::int64_t first = 0;
  for (std::int64_t left = number; left > 1;) {
    const std::int64_t half = left / 2;
    if (begin_of(first + half) <= k) first += half;
    left -= half;
  }
  return first;
}

// The floor of each element, in ascending order.
class FloorCursor {
 public:
  __device__ FloorCursor(const Floors& table, std::int64_t first)
      : table_(table),
        block_(last_begun(table.blocks, first, [&](std::int64_t i) { return table.begins[i]; })),
        end_(end_of(block_)) {}
  __device__ float at(std::int64_t k) {
    while (k >= end_) end_ = end_of(++block_);
    return table_.floors[block_];
  }

 private:
  __device__ std::int64_t end_of(std::int64_t block) const {
    return block + 1 < table_.blocks ? table_.begins[block + 1] : table_.elements;
  }

  const Floors& table_;
  std::int64_t block_, end_;
};

}  // namespace laconic::cuda
