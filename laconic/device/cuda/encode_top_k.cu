#include "laconic/device/cuda/encode.h"

// The elements of largest magnitude of every block of 4096, as 4-bit integers with one scale.
namespace laconic::cuda {
namespace {

constexpr int kBits = 4, kGroups = kTile / kWarp;

struct TopKCodec {
  __device__ LargestMagnitude measure() const { return {}; }
  __device__ bool settle(float largest, std::int64_t, float& scale) const {
    scale = integer_scale(largest, kBits);
    return isfinite(largest) && scale <= largest_scale(kBits);
  }
  __device__ float inverse_of(float scale) const { return inverse_scale(scale); }
  __device__ float decoded(float scale, int code) const { return kernels::decoded(scale, code); }
};

struct Selection {
  int counted[3];                     // in turns
  int above[kGroups], same[kGroups];  // elements of each group of a warp
  int above_before[kGroups + 1], same_before[kGroups + 1];
  std::uint16_t places[kTile];  // index and code
};

// The magnitude of element k as an integer, -1 where it takes no part.
__device__ int key_of(const Encoder& encoder, int k) {
  if (k >= encoder.span.count || encoder.is_dead(encoder.span.at + k)) return -1;
  return static_cast<int>(bits_of(encoder.s.p[k]) & 0x7FFFFFFFU);
}

// The largest key that at least `slots` elements reach, or 0. REQUIRES: counted[0] is 0.
__device__ int threshold(const Encoder& encoder, Selection& selection, int slots) {
  int keys[kTile / kThreads];
  LACONIC_UNROLL
  for (int i = 0; i < kTile / kThreads; ++i) keys[i] = key_of(encoder, i * kThreads + thread());
  int most = 0;
  for (int turn = 0; turn <= 30; ++turn) {
    const int tried = most | 1 << (30 - turn);
    int reach = 0;
    LACONIC_UNROLL
    for (int i = 0; i < kTile / kThreads; ++i) reach += __popc(ballot(keys[i] >= tried));
    if (thread() % kWarp == 0) atomicAdd(&selection.counted[turn % 3], reach);
    if (thread() == 0) selection.counted[(turn + 1) % 3] = 0;
    __syncthreads();
    if (selection.counted[turn % 3] >= slots) most = tried;
  }
  return most;
}

// How many elements are larger than `least`, and equal to it, in front of each group.
__device__ void count_groups(const Encoder& encoder, Selection& selection, int least) {
  LACONIC_ROLLED
  for (int k = thread(); k < kTile; k += kThreads) {
    const int key = key_of(encoder, k);
    const std::uint32_t above = ballot(key > least), same = ballot(key == least);
    if (k % kWarp != 0) continue;
    selection.above[k / kWarp] = __popc(above);
    selection.same[k / kWarp] = __popc(same);
  }
  __syncthreads();
  if (thread() <= kGroups) {
    int above = 0, same = 0;
    for (int i = 0; i < thread(); ++i) {
      above += selection.above[i];
      same += selection.same[i];
    }
    selection.above_before[thread()] = above;
    selection.same_before[thread()] = same;
  }
  __syncthreads();
}

// Puts what is kept into its places, ascending, and encodes.
__device__ void select(const Encoder& encoder, Selection& selection, int slots) {
  const EncodeArguments& of = encoder.of;
  Shared& s = encoder.s;
  const int least = threshold(encoder, selection, slots);
  count_groups(encoder, selection, least);
  const int spare = slots - selection.above_before[kGroups];
  const float scale = s.scale[0], inverse = s.inverse[0], gain = of.gain * of.share;
  const std::uint32_t before = (1U << thread() % kWarp) - 1;
  LACONIC_ROLLED
  for (int k = thread(); k < kTile; k += kThreads) {
    const int key = key_of(encoder, k);
    const std::uint32_t above = ballot(key > least), same = ballot(key == least);
    const int same_before = selection.same_before[k / kWarp] + __popc(same & before);
    const int above_before = selection.above_before[k / kWarp] + __popc(above & before);
    const bool kept = key > least || (key == least && same_before < spare);
    const float p = s.p[k];
    const int code = kept ? code_of(p, inverse, largest_code(kBits)) : 0;
    if (kept)
      selection.places[above_before + (same_before < spare ? same_before : spare)] =
          static_cast<std::uint16_t>(k << 4 | (code & 0xF));
    if (k >= encoder.span.count) continue;
    const std::int64_t at = encoder.span.at + k;
    encoder.record(at, s.attempt[0]);
    const float e = encoder.keep(at, residual_of(p, scale, code, gain), key < 0);
    if (!encoder.samples) continue;
    s.p[k] = e;
    s.codes[k] = static_cast<signed char>(code);
  }
}

}  // namespace

LACONIC_KERNEL encode_top_k(EncodeArguments of) {
  __shared__ Shared shared;
  __shared__ Selection selection;
  Encoder encoder(of, shared);
  const int slots = static_cast<int>(smaller(of.slots, of.rows.capacity - encoder.span.begin));
  for (int place = thread(); place < slots; place += kThreads) selection.places[place] = 0;
  if (thread() == 0) selection.counted[0] = 0;
  encoder.measure(TopKCodec{});
  const bool coded = shared.attempt[0] != kCleared && encoder.span.count > 0;
  if (coded) {
    select(encoder, selection, slots);
  } else {
    LACONIC_ROLLED
    for (int k = thread(); k < encoder.span.count; k += kThreads)
      encoder.record(encoder.span.at + k, kCleared);
  }
  double residual = 0, sent = 0;
  if (encoder.samples)
    encoder.sample(TopKCodec{}, 0, residual, sent);
  else
    __syncthreads();
  // In half bytes: three of every index, then one of every code.
  auto* message = reinterpret_cast<std::uint16_t*>(row_message(of.out.payload, of.out.stride));
  const std::int64_t first = blockIdx.x * std::int64_t{of.slots};
  for (int word = thread(); word < slots; word += kThreads) {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const int half = 4 * word + i;
      const int place = half < 3 * slots ? half / 3 : half - 3 * slots;
      const int shift = half < 3 * slots ? 4 + half % 3 * 4 : 0;
      value |= static_cast<std::uint32_t>(selection.places[place] >> shift & 0xF) << 4 * i;
    }
    message[first + word] = static_cast<std::uint16_t>(value);
  }
  if (thread() != 0) return;
  const std::int64_t whole = of.rows.capacity / kTile, rest = of.rows.capacity % kTile;
  std::uint16_t* scale = message + whole * of.slots + smaller(rest, of.slots) + 2 * blockIdx.x;
  scale[0] = static_cast<std::uint16_t>(bits_of(shared.scale[0]));
  scale[1] = static_cast<std::uint16_t>(bits_of(shared.scale[0]) >> 16);
}

}  // namespace laconic::cuda
