#pragma once

#include "laconic/codec/codec.h"
#include "laconic/device/device.h"

// What a mean asks of a device, a slice of a message at a time.
namespace laconic::inline device {

// A slice of a chunk: `count` real elements from `begin` on, in messages made for `capacity`
// elements.
struct Range {
  std::size_t begin = 0, count = 0, capacity = 0;
};

// The residual of a range, from its first element on: where it is kept (null: nowhere), and what is
// added to the values (null: nothing). Without `kept`, `added` is a tile of zeros for every tile.
// Afterwards it is keep*e + share*r*gain, r what the codec left out; `gain` is the residual's unit. A
// share of 0 makes it 0.
struct Residual {
  float* kept = nullptr;
  const float* added = nullptr;
  float gain = 1, share = 1, keep = 0;
};

// One message of a codec, its blocks without the header.
struct EncodeJob {
  const Codec* codec;
  std::size_t block;  // elements that are bad together; 0: the whole range
  Range range;
  Residual residual;
  const float* live = nullptr;  // of the vector: 0 takes no part; null: all do
  std::byte* out = nullptr;
};

struct EncodeValues {
  EncodeJob to;
  Source source;
  float* spent = nullptr;        // exact codecs: memory of the vector that is 0 afterwards
  std::size_t sampled_from = 0;  // blocks are sampled from this position on
};

struct CombineMessages {
  EncodeJob to;
  std::span<const std::byte* const> messages;
  float factor = 1;
  const Codec* from = nullptr;  // of the messages; null: that of `to`
  // Where one message is null: the values that stand for it, and become what receivers decode. Of
  // the host, for codecs that combine_own.
  float* own = nullptr;
};

struct DecodeMessage {
  const Codec* codec;
  std::size_t block;
  Range range;
  const std::byte* message;
  Sink sink;
};

// fp32 values of a range for the other ranks of a node.
struct ShareValues {
  Range range;
  Source source;
  std::size_t block = 0;    // elements that fall back together; 0: the whole range
  bool falls_back = false;  // a bad block is asked for again
  float* spent = nullptr;
  float* out = nullptr;
};

// Of encoded blocks: bad ones, and squared norms over one block in 16.
struct EncodeResult {
  std::uint64_t bad = 0;
  double sent = 0, residual = 0;
};

// Random signs of a range. Bits and activity begin with the range; `wanted`, a byte per word, is
// null where all words are. Bits of other words are undefined.
struct DrawSigns {
  Range range;
  Source source;
  kernels::Draw draw;
  const std::uint8_t* wanted = nullptr;
  std::uint8_t *bits = nullptr, *active = nullptr;
};

// Normalized values in bf16, for the other ranks of a node.
struct ShareSigns {
  Range range;
  Source source;
  std::uint16_t* out = nullptr;
  std::uint8_t* active = nullptr;
};

// Votes of a range: the signs of the source's values. Bits and activity begin with the range.
struct CastVotes {
  Range range;
  Source source;
  kernels::Ties ties;
  std::uint8_t *bits = nullptr, *active = nullptr;
};

// The number of +1 among the messages' active words: drawn again (`redraw`) or decided by the
// majority (`ties`) into bits and activity, or as bit planes and voters. Messages are signs with
// their activity, or such counts themselves.
struct CountSigns {
  Range range;
  std::span<const std::uint8_t*const> bits, extras;
  int planes = 0;      // of the messages; 0: signs
  int planes_out = 0;  // of the sum
  const kernels::Draw* redraw = nullptr;
  const kernels::Ties* ties = nullptr;  // both null: counts
  std::uint8_t *out = nullptr, *out_extras = nullptr;
};

// Signs with their activity, or counts (`planes` > 0) with their voters.
struct ReadSigns {
  Range range;
  const std::uint8_t *bits = nullptr, *extras = nullptr;
  int planes = 0;
  Sink sink;
};

}  // namespace laconic::inline device
