#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/device/device.h"
#include "laconic/transport/nodes.h"

namespace laconic::inline collective {

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
  bool of_host = false;  // memory of the host; else of the device that the state's owner runs on
};

// The role of a state that was saved under `name` (without its bucket), perhaps by a run on other
// paths than this one's.
Role role_of(std::string_view name) noexcept;
// What precedes the names of state of a path beside the configured one: another codec (empty: the
// same), another layout.
std::string path_prefix(std::string_view codec, bool flat);

class Conveyor;

enum class RandomForm : std::uint8_t { kTwoRound, kSingleRound, kCount };

// What becomes of what a lossy codec leaves out, r = p - C(p), on workers and owners alike. The
// residual e, which is added to the next values, becomes r; beta*e + (1-beta)*r, and 0 after every
// `feedback_reset` exchanges; decay*r; or 0.
enum class Feedback : std::uint8_t { kFull, kEma, kDecay, kNone };

// The codec whose form is a method's own option.
inline constexpr std::string_view kVote = "vote";

// The codecs of a mean: fp32 and bf16 (exact sums), int8, int4, int2 and sign (so many bits, one
// bit), top-k (the largest elements), random-sign and vote (one bit, no residual).
std::span<const std::string_view> mean_codecs() noexcept;
// Whole numbers travel and nothing is left out. Error(kInvalidArgument) for an unknown name.
bool is_exact(std::string_view codec);

struct MeanConfig {
  std::string codec = "sign";  // one of mean_codecs()
  // Of the mean on its way back, any but random-sign; empty: int8 beside top-k, else `codec`. It
  // must be exact where `codec` is. Where the two differ, `kDecay` acts on workers alone, and the
  // owner of a chunk keeps all that is left out.
  std::string codec_down = {};
  std::size_t elements = 0;
  std::size_t scale_block = 4096;  // sign: a multiple of 64, or 0 for one scale per chunk
  kernels::Norm scale_norm = kernels::Norm::kL2;  // sign
  std::size_t quant_block = 256;                  // int8, int4, int2: a multiple of 64
  std::size_t top_k = 128;                        // top-k: of each 4096 elements, 1 to 4096
  Feedback feedback = Feedback::kFull;            // lossy codecs
  double feedback_beta = 0.8;                     // kEma: in [0, 1)
  std::int64_t feedback_reset = 1024;             // kEma: exchanges; 0: never
  double feedback_decay = 0.95;                   // kDecay: in [0, 1]
  RandomForm form = RandomForm::kTwoRound;        // random-sign; vote: but for kSingleRound
  std::uint32_t seed = 0, bucket = 0;             // random-sign: keys of the random numbers
  // Memory of the caller, as long as the vector, that takes the worker residual: the source then
  // gives values that already hold it. Empty: the mean keeps the residual and adds it.
  std::span<float> pending = {};
  // Shared by means that take turns on the same nodes, so that one may begin before the last one
  // ends (collective/conveyor.h); null: each ends by itself.
  Conveyor* conveyor = nullptr;
};

// What one exchange needs beside its values.
struct Round {
  std::uint64_t step = 0;  // keys the random numbers, and decides ties
  // Lossy codecs: elements that are 0 here take no part (empty: all do).
  std::span<const float> live = {};
};

// The mean of one vector over the ranks, the same bits on every rank. `source` gives this rank's
// values, `sink` consumes the mean; both are of the whole vector, and may be the same memory: a range
// is read before its mean is given to the sink. Lossy codecs keep residuals, so an
// object serves one quantity for its whole life. An exchange is collective; if it throws, the object
// is unusable.
class Mean {
 public:
  virtual ~Mean() = default;
  virtual void exchange(const Source& source, const Sink& sink, const Round& round) = 0;
  // The same, but where the conveyor lingers the mean may reach the sink only when later exchanges
  // begin or the conveyor is drained. What source, sink and round point at lives until then.
  virtual void begin(const Source& source, const Sink& sink, const Round& round) {
    exchange(source, sink, round);
  }
  // In place. Values that are not finite count as 0 with lossy codecs, block by block. If it throws,
  // other ranks may read and write `values` until the transport is gone.
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

// Of long messages, the mean of both ways; signs without their activity.
double bits_per_element(const MeanConfig& config);

// Collective: all ranks compare what they ask for. Throws Error(kInvalidArgument) naming both
// values when they differ or do not make sense. The caller keeps `nodes`, its world and `device`
// alive. A lossy codec inside a single node of several ranks is replaced by fp32; see describe().
std::unique_ptr<Mean> make_mean(const MeanConfig& config, const Nodes& nodes, Device& device);

}  // namespace laconic::inline collective
