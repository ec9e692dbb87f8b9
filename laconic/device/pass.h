#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "laconic/core/parallel.h"
#include "laconic/kernels/arithmetic.h"

// What a method does to memory, as plain data: a closed list of operations with their pointers and
// scalars. A Device runs them. Pointers are of whole vectors (a bucket), so an operation can be run
// on any range of it; memory and counters outlive the run.
//
//   Source   this rank's values, which an exchange encodes; they never touch memory
//   Sink     what is done with the mean, as it is decoded
//   Pass     an update without an exchange, or a measurement
namespace laconic::inline device {

using Counter = std::atomic<std::uint64_t>;

// Elements that a host device works on at once.
inline constexpr std::size_t kTile = 4096;
// What is decoded waits for its sink in L1, beside all that streams past. Of a whole tile much would
// be written to L2 and read again.
inline constexpr std::size_t kRun = kTile / 4;

// A piece of the vector that stays in L1, for functions of the host (Fill). It writes this rank's
// values to `values`, or points it at memory of its own that stays as it is until the exchange is
// over. What follows `random` concerns signs only.
struct Tile {
  std::size_t begin = 0, count = 0;
  float* values = nullptr;
  bool fallback = false;  // the block was found bad: give what stands for it (lossy codecs only)
  bool checked = true;    // whether values are finite is asked for, where nobody counts it

  bool random = false;            // the rest is wanted
  const float* bounds = nullptr;  // b of each value, so that |value| <= b; null: 1
  std::uint64_t active = ~0ULL;   // one bit per word of 64
  // Not null: the `wanted` words may be drawn at once into `bits`; then `drawn` is set.
  const kernels::Draw* draw = nullptr;
  std::uint64_t wanted = ~0ULL;
  const kernels::Ties* ties = nullptr;  // not null: the same for votes
  std::uint8_t* bits = nullptr;
  bool drawn = false;
};

// Functions of the caller's own, host devices only: for methods outside of the library, and tests.
// Both may be called from several threads at once, on different tiles.
//
// Fill returns false when the tile holds something not finite: a lossy codec then asks again with
// `fallback`. It may ask for a tile twice anyway (blocks longer than a tile), so for lossy codecs
// fill changes nothing that it reads.
using Fill = FunctionRef<bool(Tile&)>;
using Take = FunctionRef<void(std::size_t begin, std::span<const float> mean)>;

// How bad blocks are found and counted: in pieces of `block` elements (0 or more than a tile: a
// whole tile).
struct BadBlocks {
  std::size_t block = 0;
  Counter* count = nullptr;
};

// A variance floor per scale block: block i has [begins[i], begins[i + 1]), the last one ends with
// the vector.
struct FloorTable {
  std::span<const std::size_t> begins;  // of the host
  std::span<float> floors;
  std::size_t elements = 0;
  const std::size_t* begins_there = nullptr;  // `begins` in memory of a device that has its own

  std::size_t end(std::size_t block) const noexcept {
    return block + 1 < begins.size() ? begins[block + 1] : elements;
  }
  // work(begin, count, floor) for the parts of a range that lie in one block each.
  template <typename Work>
  void for_each(std::size_t begin, std::size_t count, const Work& work) const {
    const auto after = std::upper_bound(begins.begin(), begins.end(), begin);
    auto block = static_cast<std::size_t>(after - begins.begin()) - 1;
    for (const std::size_t last = begin + count; begin < last; ++block) {
      const std::size_t to = std::min(end(block), last);
      work(begin, to - begin, floors[block]);
      begin = to;
    }
  }
};

// Sources.

struct Source;

// The values themselves. `checked`: something not finite makes a block bad, which then counts as 0.
struct Values {
  const float* values;
  bool checked = false;
};

// beta1*m + (1-beta1)*g, and m where g is bad. `exact_bad` counts bad tiles of exact exchanges;
// null: a lossy codec asks again, block by block.
struct Momentum {
  kernels::AdamStep step;
  const float *g, *m;
  Counter* exact_bad;
};

// pending*shrink + rate*(beta1*m + (1-beta1)*g), without g where it is bad; g null: always.
struct PendingMomentum {
  kernels::AdamStep step;
  float shrink;
  const float *g, *m, *pending;
  Counter* exact_bad;
};

// Updates m and b, the decaying means of g and |g|, and gives m/b. A bad block's m and b stay, and
// its words are not active.
struct SignMoments {
  kernels::BirderMoments step;
  const float* g;
  float *m, *b;
  BadBlocks bad;
};

// Updates m and gives the signs of c = beta1*m + (1-beta1)*g, whose ties are `ties`. A bad block's m
// stays, and its words are not active: 0.
struct LionVotes {
  kernels::LionMoments step;
  kernels::Ties ties;
  const float* g;
  float* m;
  BadBlocks bad;
};

// x_sync - x, how far this rank moved. A block with something not finite counts as 0. Exact
// exchanges find and count such blocks here; a lossy codec (`exact_bad.count` null) asks again.
struct Displacement {
  const float *x_sync, *x;
  BadBlocks exact_bad;
};

// What the ranks of a node shared of a range that begins at `begin`: the sum of fp32 values, in rank
// order, times `factor`.
struct NodeSum {
  std::span<const std::byte* const> shares;
  float factor;
  std::size_t begin;
};

// The same for signs: the mean of bf16 values over the ranks on which a word is active. Activity
// follows `capacity` values.
struct NodeSigns {
  std::span<const std::byte* const> shares;
  std::size_t begin, capacity;
};

// A residual of elements [begin, begin + values.size()), times `gain`.
struct Addend {
  std::span<const float> values;
  std::size_t begin;
  float gain;
};

// Another source with residuals added, and 0 where `live` is 0 (null: nowhere). Its bad blocks are
// counted and replaced by what stands for them.
struct Corrected {
  const Source* of;
  std::span<const Addend> residuals;
  const float* live;
  BadBlocks bad;
};

// Another source, whose values are also written to memory.
struct RecordedSource {
  const Source* of;
  float* values;
};

struct Source : std::variant<Fill, Values, Momentum, PendingMomentum, SignMoments, LionVotes,
                             Displacement, NodeSum, NodeSigns, Corrected, RecordedSource> {
  using variant::variant;
};

// Sinks. `mean` is what was decoded.

struct Sink;

struct Store {
  float* to;
};

// m = momentum*m + mean; x = x*decay - lr*m. Bad blocks are left.
struct SgdmUpdate {
  kernels::SgdmStep step;
  float *m, *x;
  BadBlocks bad;
};

// One step of lion_element on the mean. Bad blocks are left.
struct LionUpdate {
  kernels::LionStep step;
  float *m, *x;
  BadBlocks bad;
};

// One AdamW step of elements [begin, begin + count).
struct AdamPart {
  std::size_t begin = 0, count = 0;
  kernels::AdamStep step;
};

// AdamW on the mean; parts differ where ranges rested. Bad blocks are left.
struct AdamWUpdate {
  std::span<const AdamPart> parts;
  float *m, *v, *x;
  BadBlocks bad;
};

// Both moments take the mean. The words of a bad block are marked in `left`, a byte per word of 64.
struct MomentsUpdate {
  kernels::AdamStep step;
  float *m, *v;
  std::uint8_t* left;
  BadBlocks bad;
};

// m = mean, 0 where v is 0.
struct MomentumStore {
  float* m;
  const float* v;
};

// m = mean, then x = x*decay - (rate*m)/D with the block's floor.
struct MomentumApply {
  kernels::AdamStep step;
  FloorTable floors;
  float* m;
  const float* v;
  float* x;
};

// m = mean*inverse_gain (m null: it stays); x = x_sync = decay*x_sync - mean/D.
struct PendingSync {
  kernels::AdamStep step;
  float inverse_gain;
  FloorTable floors;
  float* m;
  const float* v;
  float *x_sync, *x;
};

// x = x*decay - lr*mean.
struct SignUpdate {
  float lr, decay;
  float* x;
};

// The outer rule: x_sync and the outer momentum (null: the rule has none) take the mean
// displacement, and x follows. `snapshot` is null unless x keeps what was learnt since then.
struct OuterUpdate {
  kernels::OuterStep step;
  float* momentum;
  const float* snapshot;
  float *x_sync, *x;
};

// Another sink; the mean is also written to memory.
struct RecordedSink {
  const Sink* of;
  float* values;
};

struct Sink
    : std::variant<Take, Store, SgdmUpdate, LionUpdate, AdamWUpdate, MomentsUpdate, MomentumStore,
                   MomentumApply, PendingSync, SignUpdate, OuterUpdate, RecordedSink> {
  using variant::variant;
};

// Passes, each over its whole vector, block by block of `floors`, or over all tensors.

// A local step; without g in bad blocks.
struct LocalStep {
  kernels::AdamStep step;
  float shrink;
  const float* g;
  float* m;
  const float* v;
  float *pending, *x;
  FloorTable floors;
  Counter* bad;
};

// x = x*decay - (rate*m)/D, written to `copy` too; blocks with a word marked in `left` stay.
struct MomentsApply {
  kernels::AdamStep step;
  float* m;
  const float* v;
  float *x, *copy;
  const std::uint8_t* left;
  FloorTable floors;
};

// The part of a tensor that lies in one bucket: elements [begin, begin + count) of it, which move
// along u = (m*scale)/D + weight_decay*x, with the block's floor where there are floors. Pointers
// are the bucket's; x of the parts of a tensor follow each other in memory.
struct TensorPart {
  std::size_t begin = 0, count = 0;
  kernels::TrustStep step{};
  float rate = 0;  // lr * trust ratio; 0: x stays
  const float *m = nullptr, *v = nullptr;
  float* x = nullptr;
  const std::uint8_t* left = nullptr;  // a byte per word of 64: marked ones stay
  FloorTable floors{};
};

// At most kTile elements of one tensor: from element `begin` of parts[part]'s bucket on, into the
// parts that follow.
struct TensorPiece {
  std::size_t part = 0, begin = 0, count = 0;
};

// Squared norms of x and u of every piece, each summed in 16 lanes.
struct TensorNorms {
  std::span<const TensorPart> parts;
  std::span<const TensorPiece> pieces;
  double *x, *u;
};

// x = x - rate*u.
struct TensorApply {
  std::span<const TensorPart> parts;
  std::span<const TensorPiece> pieces;
};

// floors = factor times the mean of v over each block, 0 where not `on`; counts the blocks whose mean
// is 0. A sum runs in 16 lanes; `in_parts`: it is folded every tile and the parts are added in
// double. With `freeze` elements of v that are 0 become the mean first.
struct UpdateFloors {
  float* v;
  FloorTable floors;
  float factor;
  bool on, in_parts, freeze;
  std::size_t* dead;  // of the host
};

// The sum of squares or magnitudes of every tile, in 16 lanes; with `checked` -1 where the tile holds
// something not finite.
struct TileSums {
  const float* values;
  std::size_t elements;
  kernels::Norm norm;
  bool checked;
  float* sums;  // of the host
};

struct Scaling {
  float* values;
  std::size_t elements;
  float factor;
};

struct Filling {
  float* values;
  std::size_t elements;
  float value;
};

using Pass = std::variant<LocalStep, MomentsApply, TensorNorms, TensorApply, UpdateFloors, TileSums,
                          Scaling, Filling>;

}  // namespace laconic::inline device
