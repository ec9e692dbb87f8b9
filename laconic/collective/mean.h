#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/core/parallel.h"
#include "laconic/kernels/random_sign.h"
#include "laconic/kernels/sign.h"
#include "laconic/transport/nodes.h"

namespace laconic {

// How state is distributed over the ranks: replicated; one value per rank, whose mean counts;
// sharded; replicated scalars; scalars of each rank, which have no meaning on other ranks.
enum class Spread : std::uint8_t { kSame, kMean, kOwned, kScalar, kRank };

// What state is for. A residual is what lossy codecs left out so far: it belongs to the mean, and
// is added to an exact one when ranks or paths change.
enum class Role : std::uint8_t { kOther, kResidual };

struct State {
  std::string name;  // in checkpoints
  std::span<float> values;
  Spread spread;
  // Position of values[0] in the vector (kOwned, and kMean where a rank keeps a part).
  std::size_t begin = 0;
  std::span<double> scalars = {};  // kScalar, kRank
  bool optional = false;           // 0 where a checkpoint of an earlier version lacks it
  Role role = Role::kOther;
};

// The role of a state that was saved under `name` (without its bucket), perhaps by a run on other
// paths than this one's.
Role role_of(std::string_view name) noexcept;

// A piece of the vector that stays in L1. `fill` writes this rank's values to `values`, or points
// it at memory of its own that stays as it is until the exchange is over. What follows `random`
// concerns random signs only.
struct Tile {
  std::size_t begin = 0, count = 0;
  float* values = nullptr;
  bool fallback = false;  // the block was found bad: give what stands for it (lossy codecs only)

  bool random = false;            // the rest is wanted
  const float* bounds = nullptr;  // b of each value, so that |value| <= b; null: 1
  std::uint64_t active = ~0ULL;   // one bit per word of 64
  // Not null: fill may draw the `wanted` words itself into `bits`; it then sets `drawn`.
  const kernels::Draw* draw = nullptr;
  std::uint64_t wanted = ~0ULL;
  std::uint8_t* bits = nullptr;
  bool drawn = false;
};

// Returns false when the tile holds something not finite: a lossy codec then asks again with
// `fallback`. It may ask for a tile twice anyway (blocks longer than a tile), so for lossy codecs
// fill changes nothing that it reads.
using Fill = FunctionRef<bool(Tile&)>;
using Take = FunctionRef<void(std::size_t begin, std::span<const float> mean)>;

enum class RandomForm : std::uint8_t { kTwoRound, kSingleRound, kCount };

// What a lossy codec leaves out, p - C(p): it is added to the next exchange, or dropped.
enum class Feedback : std::uint8_t { kFull, kNone };

// The codecs of a mean: fp32 and bf16 (exact sums), sign (one bit), random-sign (no residual).
std::span<const std::string_view> mean_codecs() noexcept;

struct MeanConfig {
  std::string codec = "sign";  // one of mean_codecs()
  std::size_t elements = 0;
  std::size_t scale_block = 4096;  // sign: a multiple of 64, or 0 for one scale per chunk
  kernels::Norm scale_norm = kernels::Norm::kL2;  // sign
  Feedback feedback = Feedback::kFull;            // lossy codecs
  RandomForm form = RandomForm::kTwoRound;        // random-sign
  std::uint32_t seed = 0, bucket = 0;             // random-sign: keys of the random numbers
  // Memory of the caller, as long as the vector, that takes the worker residual: `fill` then gives
  // values that already hold it. Empty: the mean keeps the residual and adds it.
  std::span<float> pending = {};
};

// What one exchange needs beside its values.
struct Round {
  std::uint64_t step = 0;  // keys the random numbers
  // Lossy codecs: elements that are 0 here take no part (empty: all do).
  std::span<const float> live = {};
};

// The mean of one vector over the ranks, the same bits on every rank. Works in tiles of at most
// 4096 elements: `fill` writes this rank's values of a tile, `take` consumes the mean of a tile;
// both may be called from the threads of the pool at once, on different tiles. Lossy codecs keep
// residuals, so an object serves one quantity for its whole life. An exchange is collective; if it
// throws, the object is unusable.
class Mean {
 public:
  static constexpr std::size_t kTile = 4096;

  virtual ~Mean() = default;
  virtual void exchange(Fill fill, Take take, const Round& round) = 0;
  // In place. Values that are not finite count as 0 with lossy codecs, block by block.
  void reduce(std::span<float> values);

  virtual std::vector<State> state() = 0;
  virtual std::size_t elements() const noexcept = 0;
  // Where blocks begin, ascending: the pieces that fall back together and share a scale. Codecs
  // without scales have blocks of a tile.
  virtual std::vector<std::size_t> blocks() const = 0;
  // ‖residual‖ / ‖transmitted‖ of the last exchange on this rank, from one block in 16; 0 where no
  // residual is kept.
  virtual double residual_ratio() const noexcept { return 0; }
  // What really runs: "one-bit mean, 2 nodes of 4, scale blocks of 4096 (L2)".
  virtual std::string describe() const = 0;
  // Blocks in which this rank gave something not finite, so far.
  virtual std::uint64_t bad_blocks() const noexcept = 0;

 private:
  std::uint64_t reduced_ = 0;
};

// Collective: all ranks compare what they ask for. Throws Error(kInvalidArgument) naming both
// values when they differ or do not make sense. The caller keeps `nodes`, its world and `pool`
// alive. A lossy codec inside a single node of several ranks gives way to fp32; see describe().
std::unique_ptr<Mean> make_mean(const MeanConfig& config, const Nodes& nodes, Pool& pool);

}  // namespace laconic
