#pragma once

#include "laconic/device/cuda/lanes.h"
#include "laconic/device/cuda/source.h"

// Lossy encode with error feedback, the same for all codecs: p of each block of an item, its scale,
// then codes and residual, in one pass over the memory where the item fits a tile; p of a longer
// block is made twice. A block whose values or measure are not finite is encoded again with what
// stands for it; where even that is not finite it decodes to 0 and its residual stays.
//
// A codec has kNone, the code of what is not coded; measure(); settle(measured, counted, scale),
// which is false when the block cannot be encoded; inverse_of(scale), what all elements of a block need
// of it; code_of(p, inverse); left_of(p, scale, code, gain); decoded(scale, code).
//
// Whole tiles of the usual kind have loops of their own, without what they do not need.
namespace laconic::cuda {

constexpr int kSteps = kTile / kThreads;  // elements of a tile for each thread

// Of a block.
enum Attempt : int { kGiven, kFallenBack, kCleared };

struct Shared {
  float p[kTile];
  float measured[kTileWords];  // of each block, as what follows
  float scale[kTileWords], inverse[kTileWords];
  int counted[kTileWords], bad[kTileWords], attempt[kTileWords];
  int again;
  signed char codes[kTile];
};

class Encoder {
 public:
  const EncodeArguments& of;
  Shared& s;
  const Span span;
  const int length, block, blocks;  // of a block; the part of it in a tile; blocks of the item
  const bool fits, whole;           // a tile; a tile with all elements there and alive

  __device__ Encoder(const EncodeArguments& arguments, Shared& shared)
      : of(arguments),
        s(shared),
        span(encoded_span(of.rows)),
        length(static_cast<int>(of.block)),
        block(length < kTile ? length : kTile),
        blocks(length > kTile ? 1 : (span.room + block - 1) / block),
        fits(span.room <= kTile),
        whole(span.count == kTile && fits && of.live == nullptr),
        number_(of.samples != nullptr && of.kept != nullptr ? number_of_first() : 1),
        samples(of.samples != nullptr && of.kept != nullptr &&
                15 - (number_ + 15) % 16 < static_cast<std::uint32_t>(blocks)) {}

  // Chooses an attempt and a scale for every block. p of an item that fits is in shared memory then.
  template <class Codec>
  __device__ void measure(const Codec& codec) {
    if (thread() < kTileWords) {
      s.counted[thread()] = s.bad[thread()] = s.attempt[thread()] = 0;
      s.scale[thread()] = 0;
    }
    if (thread() == 0) s.again = 0;
    __syncthreads();
    LACONIC_ROLLED
    for (int attempt = kGiven; attempt <= kFallenBack; ++attempt) {
      measure_tiles(codec, attempt);
      if (thread() < blocks && s.attempt[thread()] == attempt) decide(codec, attempt);
      __syncthreads();
      if (s.again == 0) return;
    }
  }

  // p of a tile as it was measured.
  __device__ void fill_again(int tile) {
    LACONIC_ROLLED
    for (int k = thread(); k < tile_length(tile); k += kThreads) {
      bool good = true;
      s.p[k] = p_of(tile + k, s.attempt[0] != kGiven, good);
    }
  }

  __device__ int tile_length(int tile) const {
    return span.room - tile < kTile ? span.room - tile : kTile;
  }
  __device__ int tile_count(int tile) const {
    const int left = span.count - tile;
    return left < 0 ? 0 : left < kTile ? left : kTile;
  }
  __device__ bool is_dead(std::int64_t at) const { return of.live != nullptr && of.live[at] == 0; }

  // Whether nothing but the new residual is to be kept of a whole tile.
  __device__ bool is_plain() const {
    return whole && of.recorded == nullptr && of.kept != nullptr && of.share != 0 && of.keep == 0 &&
           s.again == 0;
  }
  // The new residual of an element, from what is left out, times gain.
  __device__ float keep(std::int64_t at, float left, bool dead) const {
    if (of.kept == nullptr) return 0;
    float e = 0;
    if (of.share != 0 && !dead) e = of.keep != 0 ? blended(of.keep, left, of.kept[at]) : left;
    of.kept[at] = e;
    return e;
  }
  // Before the residual changes, which the source may hold.
  __device__ void record(std::int64_t at, int attempt) const {
    bool unused = true;
    if (of.recorded != nullptr)
      of.recorded[at] = value_of(of.source, at, attempt != kGiven, unused);
  }

  // After a tile, where `samples`. `residual` and `sent` are those of the tiles before.
  template <class Codec>
  __device__ void sample(const Codec& codec, int tile, double& residual, double& sent) {
    __syncthreads();
    const SumOfWeights squares{Norm::kL2};
    const auto wanted = [&](int j) { return is_sampled(j); };
    const int count = tile_count(tile);
    measure_blocks(
        squares, blocks, block, count, wanted, [&](int, int k) { return s.p[k]; },
        [&](int j, float sum) { s.measured[j] = sum; });
    measure_blocks(
        squares, blocks, block, count, wanted,
        [&](int j, int k) { return codec.decoded(s.scale[j], s.codes[k]); },
        [&](int j, float sum) {
          if (fits) residual = sent = 0;  // several blocks may be this thread's
          if (s.attempt[j] != kCleared) {
            residual += static_cast<double>(s.measured[j] / (of.gain * of.gain));
            sent += static_cast<double>(sum);
          }
          double* to = of.samples + blockIdx.y * of.samples_stride +
                       (number_ + static_cast<std::uint32_t>(j)) / 16 * 2;
          to[0] = residual;
          to[1] = sent;
        });
  }

 private:
  // Vectors have less than 2^32 elements.
  __device__ std::uint32_t number_of_first() const {
    const auto from = static_cast<std::uint32_t>(span.at - of.sampled_from);
    return of.in_parts != 0 ? from : from / static_cast<std::uint32_t>(length);
  }
  __device__ bool is_sampled(int j) const {
    return samples && (number_ + static_cast<std::uint32_t>(j)) % 16 == 0 &&
           j * length < span.count;
  }

  __device__ float corrected(float value, std::int64_t at) const {
    if (of.added != nullptr) return value + of.added[at];
    return of.adds_zero != 0 ? value + 0.0F : value;
  }
  __device__ float p_of(int k, bool fallback, bool& good) const {
    if (k >= span.count) return 0;
    const std::int64_t at = span.at + k;
    const float value = value_of(of.source, at, fallback, good);
    return is_dead(at) ? 0.0F : corrected(value, at);
  }

  // p of the blocks of a tile that are at this attempt.
  __device__ void fill(int tile, int attempt) {
    Cursor cursor(length);
    LACONIC_ROLLED
    for (int k = thread(); k < tile_length(tile); k += kThreads) {
      const int j = cursor.move_to(tile + k);
      if (s.attempt[j] != attempt) continue;
      bool good = true;
      s.p[k] = p_of(tile + k, attempt != kGiven, good);
      if (attempt != kGiven) continue;
      if (!good) atomicOr(&s.bad[j], 1);
      if (of.live == nullptr) continue;
      const int live = __popc(ballot(tile + k < span.count && !is_dead(span.at + tile + k)));
      if (thread() % kWarp == 0) atomicAdd(&s.counted[j], live);
    }
  }
  __device__ void fill_whole() {
    with_kind(of.source.kind, [&](auto kind) {
      Cursor cursor(length);
      const std::int64_t first = span.at + thread();
      LACONIC_UNROLL_4
      for (int step = 0; step < kSteps; ++step) {
        const int j = cursor.move_to(step * kThreads + thread());
        const std::int64_t at = first + step * kThreads;
        bool good = true;
        const float value = value_of<decltype(kind)::value>(of.source, at, false, good);
        s.p[step * kThreads + thread()] = corrected(value, at);
        if (!good) atomicOr(&s.bad[j], 1);
      }
    });
  }

  template <class Codec>
  __device__ void measure_tiles(const Codec& codec, int attempt) {
    const auto measure = codec.measure();
    if (fits) {
      if (whole && attempt == kGiven)
        fill_whole();
      else
        fill(0, attempt);
      __syncthreads();
      measure_blocks(
          measure, blocks, block, tile_count(0), [](int) { return true; },
          [&](int, int k) { return s.p[k]; }, [&](int j, float all) { s.measured[j] = all; });
    } else {
      measure_long(measure, attempt);
    }
    __syncthreads();
  }

  template <class Measure>
  __device__ void measure_long(const Measure& measure, int attempt) {
    float lane = 0;
    double total = 0;
    for (int tile = 0; tile < span.room; tile += kTile) {
      fill(tile, attempt);
      __syncthreads();
      lane = measure_on(measure, lane, tile_count(tile), [&](int k) { return s.p[k]; });
      if (of.in_parts != 0) {
        total += static_cast<double>(fold(measure, lane));
        lane = 0;
      }
      __syncthreads();
    }
    const float all = fold(measure, lane);
    if (thread() == 0) s.measured[0] = of.in_parts != 0 ? static_cast<float>(total) : all;
  }

  template <class Codec>
  __device__ void decide(const Codec& codec, int attempt) {
    const int j = thread(), left = span.count - j * length;
    const int there = left < 0 ? 0 : left < length ? left : length;
    const bool settled =
        codec.settle(s.measured[j], of.live != nullptr ? s.counted[j] : there, s.scale[j]);
    s.inverse[j] = codec.inverse_of(s.scale[j]);
    if (settled && (attempt != kGiven || s.bad[j] == 0)) return;
    s.attempt[j] = attempt + 1;
    s.scale[j] = 0;
    if (attempt != kGiven) return;
    atomicAdd(of.bad, Counter{1});
    atomicOr(&s.again, 1);
  }

  const std::uint32_t number_;  // of the item's first block

 public:
  // Whether norms of some block of the item are wanted; residuals are then put in the place of p,
  // codes beside them.
  const bool samples;
};

// The codes and residuals of a tile.
template <class Codec, class Emit>
__device__ void encode_tile(const Encoder& encoder, const Codec& codec, const Emit& emit,
                            int tile) {
  Shared& s = encoder.s;
  const Span& span = encoder.span;
  const float gain = encoder.of.gain * encoder.of.share;
  Cursor cursor(encoder.length);
  LACONIC_ROLLED
  for (int k = thread(); k < encoder.tile_length(tile); k += kThreads) {
    const int j = cursor.move_to(tile + k);
    const std::int64_t at = span.at + tile + k;
    const float p = s.p[k], scale = s.scale[j];
    const int attempt = s.attempt[j];
    const bool there = tile + k < span.count, dead = there && encoder.is_dead(at);
    const bool coded = there && !dead && attempt != kCleared;
    const int code = coded ? codec.code_of(p, s.inverse[j]) : Codec::kNone;
    emit(span.begin, (tile + k) / kThreads, code);
    if (!there) continue;
    encoder.record(at, attempt);
    if (attempt == kCleared) continue;
    const float e = encoder.keep(at, codec.left_of(p, scale, code, gain), dead);
    if (!encoder.samples) continue;
    s.p[k] = e;
    s.codes[k] = static_cast<signed char>(code);
  }
}
template <class Codec, class Emit>
__device__ void encode_plain_tile(const Encoder& encoder, const Codec& codec, const Emit& emit) {
  Shared& s = encoder.s;
  const float gain = encoder.of.gain * encoder.of.share;
  float* kept = encoder.of.kept + encoder.span.at + thread();
  Cursor cursor(encoder.length);
  LACONIC_UNROLL_4
  for (int step = 0; step < kSteps; ++step) {
    const int k = step * kThreads + thread();
    const int j = cursor.move_to(k);
    const float p = s.p[k], scale = s.scale[j];
    const int code = codec.code_of(p, s.inverse[j]);
    emit(encoder.span.begin, step, code);
    const float e = codec.left_of(p, scale, code, gain);
    kept[step * kThreads] = e;
    if (!encoder.samples) continue;
    s.p[k] = e;
    s.codes[k] = static_cast<signed char>(code);
  }
}

// Every element to its code: emit(begin, step, code) writes that of element begin + step*kThreads +
// thread() of the row, all lanes of a warp together; store_scale(b, scale) that of block b.
template <class Codec, class Emit, class StoreScale>
__device__ void encode(const EncodeArguments& of, Shared& s, const Codec& codec, const Emit& emit,
                       const StoreScale& store_scale) {
  Encoder encoder(of, s);
  encoder.measure(codec);
  double residual = 0, sent = 0;
  if (encoder.is_plain()) {
    encode_plain_tile(encoder, codec, emit);
    if (encoder.samples) encoder.sample(codec, 0, residual, sent);
  } else {
    for (int tile = 0; tile < encoder.span.room; tile += kTile) {
      if (!encoder.fits) encoder.fill_again(tile);
      encode_tile(encoder, codec, emit, tile);
      if (!encoder.samples) continue;
      encoder.sample(codec, tile, residual, sent);
      if (!encoder.fits) __syncthreads();
    }
  }
  const std::int64_t per_item = encoder.length > kTile ? 1 : of.rows.item / encoder.block;
  if (thread() < encoder.blocks) store_scale(blockIdx.x * per_item + thread(), s.scale[thread()]);
}

}  // namespace laconic::cuda
