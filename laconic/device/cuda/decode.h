#pragma once

#include "laconic/device/cuda/block.h"

// Elements of messages of every codec, and how they are handed to a sink: take(k, mean) for those of
// the vector in ascending order, leave(k) for those of bad pieces.
namespace laconic::cuda {

struct Decoded {
  float mean[kTile];
  int bad[kTileWords];  // of each piece
};

class Decoder {
 public:
  const Span span;

  __device__ Decoder(const Decoding& of, Decoded& shared)
      : span(decoded_span(of.rows)),
        of_(of),
        s_(shared),
        message_(row_message(of.from.payload, of.from.stride)),
        extras_(message_ +
                whole_words(of.rows.capacity) / 8 *
                    (of.codec == CodecKind::kSign || of.codec == CodecKind::kSigns ? 1 : of.bits)),
        scale_(has_scales()
                   ? static_cast<std::uint32_t>(span.begin) / static_cast<std::uint32_t>(of.block)
                   : 0),
        scale_end_(has_scales() ? (scale_ + std::int64_t{1}) * of.block : 0) {}

  // Top-k: before the first mean_of, by all threads.
  __device__ void open() {
    if (of_.codec != CodecKind::kTopK || span.count == 0) return;
    const std::int64_t block = span.begin / kTile, whole = of_.rows.capacity / kTile;
    const std::int64_t rest = of_.rows.capacity % kTile;
    const int slots = static_cast<int>(smaller(of_.slots, of_.rows.capacity - block * kTile));
    const auto* message = reinterpret_cast<const std::uint16_t*>(message_);
    const std::uint16_t* at = message + whole * of_.slots + smaller(rest, of_.slots) + 2 * block;
    const float scale = float_of_bits(at[0] | static_cast<std::uint32_t>(at[1]) << 16);
    LACONIC_ROLLED
    for (int k = thread(); k < kTile; k += kThreads) s_.mean[k] = 0;
    __syncthreads();
    const std::uint16_t* places = message + block * of_.slots;
    for (int place = thread(); place < slots; place += kThreads) {
      std::uint32_t index = 0;
      for (int i = 0; i < 3; ++i) index |= half_byte(places, 3 * place + i) << 4 * i;
      const int code = static_cast<int>(half_byte(places, 3 * slots + place) ^ 8U) - 8;
      if (place == 0 || index != 0) s_.mean[index] = decoded(scale, code);
    }
    __syncthreads();
  }

  // Of element k of the span.
  __device__ float mean_of(int k) {
    const std::int64_t in_row = span.begin + k;
    switch_scale(in_row);
    if (of_.codec == CodecKind::kSign) return decoded(scale(), bit_of(message_, in_row));
    if (of_.codec == CodecKind::kFp32) return reinterpret_cast<const float*>(message_)[in_row];
    if (of_.codec == CodecKind::kBf16)
      return float_of_bf16(reinterpret_cast<const std::uint16_t*>(message_)[in_row]);
    if (of_.codec == CodecKind::kIntegers) return decoded(scale(), field_of(in_row));
    if (of_.codec == CodecKind::kTopK) return s_.mean[k];
    const std::int64_t word = in_row / kWord;
    if (of_.codec == CodecKind::kSigns) {
      const bool active = (extras_[word / 8] >> word % 8 & 1) != 0;
      return !active ? 0.0F : bit_of(message_, in_row) ? 1.0F : -1.0F;
    }
    int count = 0;
    LACONIC_ROLLED
    for (int plane = 0; plane < of_.bits; ++plane)
      count += static_cast<int>(bit_of(message_ + 8 * (word * of_.bits + plane), in_row % kWord))
               << plane;
    return mean_of_count(count, reinterpret_cast<const std::uint16_t*>(extras_)[word]);
  }

 private:
  __device__ static bool bit_of(const std::uint8_t* bits, std::int64_t k) {
    return (reinterpret_cast<const std::uint32_t*>(bits)[k / 32] >> k % 32 & 1) != 0;
  }
  __device__ static std::uint32_t half_byte(const std::uint16_t* from, int number) {
    return from[number / 4] >> number % 4 * 4 & 0xF;
  }
  __device__ int field_of(std::int64_t k) const {
    const auto first = static_cast<std::uint64_t>(k) * static_cast<std::uint64_t>(of_.bits);
    const std::uint32_t word = reinterpret_cast<const std::uint32_t*>(message_)[first / 32];
    const int above = 32 - of_.bits, below = static_cast<int>(first % 32);
    return static_cast<int>(word << (above - below)) >> above;
  }
  __device__ bool has_scales() const {
    return of_.codec == CodecKind::kSign || of_.codec == CodecKind::kIntegers;
  }
  __device__ float scale() const { return reinterpret_cast<const float*>(extras_)[scale_]; }
  __device__ void switch_scale(std::int64_t in_row) {
    if (has_scales())
      for (; in_row >= scale_end_; scale_end_ += of_.block) ++scale_;
  }

  const Decoding& of_;
  Decoded& s_;
  const std::uint8_t *message_, *extras_;
  std::uint32_t scale_;  // of the elements before scale_end_
  std::int64_t scale_end_;
};

template <class Sink>
__device__ void decode(const Decoding& of, Decoded& shared, Sink sink) {
  Decoder decoder(of, shared);
  decoder.open();
  LACONIC_ROLLED
  for (int k = thread(); k < decoder.span.count; k += kThreads) {
    const float mean = decoder.mean_of(k);
    if (of.recorded != nullptr) of.recorded[decoder.span.at + k] = mean;
    sink.take(decoder.span.at + k, mean);
  }
}

// The same; pieces with something not finite are counted and left.
template <class Sink>
__device__ void decode_checked(const Decoding& of, const BadPieces& bad, Decoded& shared,
                               Sink sink) {
  Decoder decoder(of, shared);
  const Span& span = decoder.span;
  const int piece = bad.piece == 0 ? kTile : static_cast<int>(bad.piece);
  if (thread() < kTileWords) shared.bad[thread()] = 0;
  __syncthreads();
  decoder.open();
  Cursor found(piece), taken(piece);
  LACONIC_ROLLED
  for (int k = thread(); k < span.count; k += kThreads) {
    const int j = found.move_to(k);
    const float mean = decoder.mean_of(k);
    shared.mean[k] = mean;
    if (!is_finite(mean)) atomicOr(&shared.bad[j], 1);
  }
  __syncthreads();
  if (thread() * piece < span.count && shared.bad[thread()] != 0) atomicAdd(bad.count, Counter{1});
  LACONIC_ROLLED
  for (int k = thread(); k < span.count; k += kThreads) {
    const int j = taken.move_to(k);
    const float mean = shared.mean[k];
    if (of.recorded != nullptr) of.recorded[span.at + k] = mean;
    if (shared.bad[j] == 0)
      sink.take(span.at + k, mean);
    else
      sink.leave(span.at + k);
  }
}

}  // namespace laconic::cuda
