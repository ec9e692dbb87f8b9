#pragma once

#include "laconic/kernels/arithmetic.h"

// What the kernels take, one structure each, included by the kernels and by the code that launches
// them: the two sides cannot disagree. Widest members first, so that no compiler pads inside.
// Pointers are of device memory. Those of a vector (a bucket) are of the whole vector, as in
// device/pass.h, and need the alignment of their elements only; null where the comment allows it.
namespace laconic::cuda {

inline constexpr int kTile = 4096;    // elements that a thread block works on at once
inline constexpr int kThreads = 256;  // of a thread block
inline constexpr int kWord = 64;      // elements; ranges and blocks begin with whole words

using Counter = unsigned long long;  // counted up by kernels

// Where a launch works. Row y (blockIdx.y) is a range of the vector and a message of its own: the
// elements from begin + y*stride on, at most `length` and none at or past `end`. A row's message is
// made for `capacity` elements. `item` elements of a row are taken together: a run of whole blocks
// that fits a tile, or one longer block.
struct Rows {
  std::int64_t begin, stride, end, length, capacity, item;
};

// Messages without their headers, `stride` bytes from row to row. REQUIRES: both are multiples of 16.
struct Messages {
  std::uint8_t* payload;
  std::int64_t stride;
};
struct ReceivedMessages {
  const std::uint8_t* payload;
  std::int64_t stride;
};

// A variance floor per block: block i is [begins[i], begins[i + 1]), the last ends with the vector.
struct Floors {
  const std::int64_t* begins;
  const float* floors;
  std::int64_t blocks, elements;
};

// Bad blocks of a sink or of moments: counted in pieces of `piece` elements of a tile (0: a tile).
struct BadPieces {
  Counter* count;
  std::int64_t piece;
};

// This rank's values. What stands for a block that is bad (`fallback`) is 0 or the same without g.
enum class SourceKind : std::int32_t { kValues, kMomentum, kPendingMomentum, kDisplacement };

struct Source {
  const float*
      values;      // Values: they; Momentum: g; PendingMomentum: g or null; Displacement: x_sync
  const float* m;  // of momenta; Displacement: x
  const float* pending;  // PendingMomentum
  kernels::AdamStep step;
  float shrink;
  SourceKind kind;
  std::int32_t checked;  // Values: something not finite is bad
  std::int32_t zero;     // Values: 0 stands for what is bad; else the values themselves do
};

// encode_sign, encode_integers, encode_top_k: rows of values to messages, as Device::encode.
struct EncodeArguments {
  Rows rows;
  Messages out;        // all of it is written, zeros past the last element
  float* kept;         // residual, of the vector; null: none is kept
  const float* added;  // to the values, of the vector; null: nothing; may be `kept`
  const float* live;   // of the vector, 0 takes no part; null: all do
  float* recorded;     // of the vector, null or the values as they were encoded, without residual
  Counter* bad;        // blocks
  double* samples;     // null: none; of block n, n % 16 == 0, counted from `sampled_from`: squared
                       // norms of residual and message at samples[n/16*2] and after
  std::int64_t sampled_from;    // position of block 0 of those that are sampled
  std::int64_t samples_stride;  // doubles from row to row: rows may share a number
  std::int64_t block;           // elements of a scale; in_parts: the capacity; top-k: kTile
  Source source;
  float gain, share, keep;  // e = keep*e + share*r*gain; a share of 0 makes it 0
  kernels::Norm norm;       // sign
  std::uint8_t in_parts;    // sign: one scale for a row, whose sum is made of tiles
  std::uint8_t bits;        // integers: 8, 4 or 2
  std::uint8_t adds_zero;   // p = a + 0, which turns -0 into +0: a residual that is not kept
  std::int32_t slots;       // top-k: elements kept of a block
};

// encode_dense: fp32 or bf16 values, as Device::encode of exact codecs and Device::share. A block of
// `rows.item` elements whose source is bad falls back and is counted, where `falls_back`.
struct DenseArguments {
  Rows rows;
  Messages out;     // zeros past the last element
  float* spent;     // of the vector, 0 afterwards; null: none
  float* recorded;  // as above
  Counter* bad;     // null: not counted
  Source source;
  std::int32_t falls_back, bf16;
};

// draw_signs, cast_votes, share_signs: one bit per element and one activity bit per word, or bf16
// ratios and activity. With `m` null the values are `g`, without moments. REQUIRES: rows.item = kTile.
struct SignsArguments {
  Rows rows;
  Messages out;  // bits (share_signs: bf16), then activity; zeros past the last element
  const float* g;
  float *m, *b;                // SignMoments: both; LionVotes: m; values: none
  const std::uint8_t* wanted;  // a byte per word of row 0; null: all. Other words get 0 bits
  float* recorded;
  BadPieces bad;
  kernels::Draw draw;
  kernels::BirderMoments moments;
  kernels::LionMoments votes;
  std::int32_t checked;  // of values: a tile with something not finite is not active
  kernels::Ties ties;
};

// Messages to means.
enum class CodecKind : std::int32_t { kFp32, kBf16, kIntegers, kSign, kTopK, kSigns, kCounts };

// What decode_… have in common. A sink works in tiles of at most kTile elements of an item.
struct Decoding {
  Rows rows;
  ReceivedMessages from;
  float* recorded;     // of the vector, null or the mean
  std::int64_t block;  // elements of a scale, all of `capacity` for one per row; top-k: kTile
  CodecKind codec;
  std::int32_t bits;   // integers: 8, 4 or 2; counts: planes
  std::int32_t slots;  // top-k
  std::int32_t unused;
};

struct StoreArguments {
  Decoding of;
  float* to;
};
struct SgdmArguments {
  Decoding of;
  float *m, *x;
  BadPieces bad;
  kernels::SgdmStep step;
};
struct LionArguments {
  Decoding of;
  float *m, *x;
  BadPieces bad;
  kernels::LionStep step;
};
// As device/pass.h's.
struct AdamPart {
  std::int64_t begin, count;
  kernels::AdamStep step;
};
struct AdamWArguments {
  Decoding of;
  float *m, *v, *x;
  const AdamPart* parts;  // ascending; null: one step for all
  std::int64_t part_count;
  BadPieces bad;
  kernels::AdamStep step;
};
struct MomentsArguments {
  Decoding of;
  float *m, *v;
  std::uint8_t* left;
  BadPieces bad;
  kernels::AdamStep step;
};
struct MomentumStoreArguments {
  Decoding of;
  float* m;
  const float* v;
};
struct MomentumApplyArguments {
  Decoding of;
  float* m;
  const float* v;
  float* x;
  Floors floors;
  kernels::AdamStep step;
};
struct PendingSyncArguments {
  Decoding of;
  float* m;  // null: it stays
  const float* v;
  float *x_sync, *x;
  Floors floors;
  kernels::AdamStep step;
  float inverse_gain;
};
struct SignUpdateArguments {
  Decoding of;
  float* x;
  float lr, decay;
};
struct OuterArguments {
  Decoding of;
  float* momentum;        // null: the rule has none
  const float* snapshot;  // null unless x keeps what was learnt since
  float *x_sync, *x;
  kernels::OuterStep step;
};

// Passes. A thread block takes a block of floors.

struct LocalStepArguments {
  const float* g;
  float* m;
  const float* v;
  float *pending, *x;
  Counter* bad;
  Floors floors;
  kernels::AdamStep step;
  float shrink;
};
struct MomentsApplyArguments {
  float* m;
  const float* v;
  float *x, *copy;
  const std::uint8_t* left;
  Floors floors;
  kernels::AdamStep step;
};
// update_floors: floors[i] = mean of v over block i * factor, 0 where not `on`; counts blocks whose
// mean is 0. With `freeze` elements of v that are 0 become the mean first.
struct FloorsArguments {
  float* v;
  float* floors;  // written
  const std::int64_t* begins;
  Counter* dead;
  std::int64_t blocks, elements;
  float factor;
  std::int32_t on, in_parts, freeze;
};

// As device/pass.h's. A piece has at most kTile elements.
struct TensorPart {
  std::int64_t begin, count;
  const float *m, *v;
  float* x;
  const std::uint8_t* left;  // null: nothing is marked
  Floors floors;             // begins null: none
  kernels::TrustStep step;
  float rate;
};
struct TensorPiece {
  std::int64_t part, begin, count;
};
// tensor_norms, tensor_apply: a thread block takes a piece.
struct TensorArguments {
  const TensorPart* parts;
  const TensorPiece* pieces;
  float *x, *u;  // tensor_norms: a squared norm per piece
};

// measure: of every tile the sum of weights in 16 lanes, and whether all elements are finite.
struct MeasureArguments {
  const float* values;
  float* sums;           // one per tile
  std::uint8_t* finite;  // 1 or 0 per tile; null: not wanted
  std::int64_t elements;
  kernels::Norm norm;
};

// scale: a = a*factor.
struct ScaleArguments {
  float* a;
  std::int64_t elements;
  float factor;
};

}  // namespace laconic::cuda
