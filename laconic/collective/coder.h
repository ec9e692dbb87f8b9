#pragma once

#include "laconic/codec/codec.h"
#include "laconic/collective/mean.h"
#include "laconic/core/buffer.h"

namespace laconic {

// A slice of a chunk: `count` real elements from `begin` on, in messages made for `capacity`
// elements.
struct Range {
  std::size_t begin = 0, count = 0, capacity = 0;
};

// Bytes of the messages of a range: this rank's values inside its node, up to the owner of the
// chunk, and down from the owner to all.
struct Sizes {
  std::size_t share = 0, up = 0, down = 0;
};

// How values become messages and messages a mean. Used by a Pipeline, which knows who talks to
// whom. Calls for different ranges come one after the other; a call uses all threads of the pool.
class Coder {
 public:
  virtual ~Coder() = default;
  virtual Sizes sizes(std::size_t capacity) const = 0;

  // Inside a node (hierarchies only): `share` writes this rank's values; `join` gives the node's
  // for a tile.
  virtual void share(const Range& range, Fill fill, std::span<std::byte> out) = 0;
  virtual void join(const Range& range, std::span<const std::byte* const> shares, Tile& tile) = 0;

  // Between nodes: every worker encodes for the owner of the range, the owner combines the messages
  // into one, all decode it.
  virtual void encode(const Range& range, Fill source, std::span<std::byte> out) = 0;
  virtual void combine(const Range& range, std::span<const std::byte* const> messages,
                       std::span<std::byte> out) = 0;
  virtual void decode(const Range& range, std::span<const std::byte> message, int owner,
                      Take take) = 0;

  // Before the first range of an exchange.
  virtual void begin(const Round&) { ++sequence_; }
  virtual std::vector<State> state() { return {}; }
  virtual std::uint64_t bad_blocks() const noexcept { return 0; }
  virtual double residual_ratio() const noexcept { return 0; }
  virtual std::string describe() const = 0;

 protected:
  explicit Coder(Pool& pool)
      : pool_(pool), scratch_(Mean::kTile * static_cast<std::size_t>(pool.threads())) {}

  // A tile per thread.
  float* scratch(int thread) const {
    return scratch_.data() + Mean::kTile * static_cast<std::size_t>(thread);
  }
  wire::Header header(wire::Form form, const Range& range) const {
    return {form, static_cast<std::uint32_t>(range.count), sequence_};
  }

  Pool& pool_;

 private:
  Buffer<float> scratch_;
  std::uint32_t sequence_ = 0;
};

// What a coder may know of where it runs.
struct Place {
  int rank = 0;   // in the world
  int nodes = 1;  // how many messages an owner combines
  int per_node = 1;
  std::size_t shard_begin = 0, shard_count = 0;  // what this rank encodes
  std::size_t chunk_begin = 0, chunk_count = 0;  // what this rank owns
};

// Any codec, with error feedback where it is lossy.
std::unique_ptr<Coder> make_feedback_coder(const MeanConfig& config, const Place& place,
                                           Pool& pool);
std::unique_ptr<Coder> make_random_sign_coder(const MeanConfig& config, const Place& place,
                                              Pool& pool);

// Names of residuals in checkpoints; role_of knows them.
inline constexpr const char* kWorkerResidual = "worker_residual";
inline constexpr const char* kServerResidual = "server_residual";
inline constexpr const char* kFlatPrefix = "flat_";  // of the same on a flat path beside another

// The keys of one exchange's random numbers.
kernels::Draw draw_of(const MeanConfig& config, const Round& round, int rank);

// The longest run of whole blocks that fits a tile; a tile where blocks are longer.
constexpr std::size_t tile_of(std::size_t block) {
  return block == 0 || block > Mean::kTile ? Mean::kTile : Mean::kTile / block * block;
}

// Calls work(begin, count, thread) for the pieces of at most `piece` elements of [begin, begin +
// count).
template <typename Work>
void for_each_piece(Pool& pool, std::size_t begin, std::size_t count, std::size_t piece,
                    const Work& work) {
  if (count == 0) return;
  pool.run((count + piece - 1) / piece, [&](std::size_t i, int thread) {
    const std::size_t at = i * piece;
    work(begin + at, count - at < piece ? count - at : piece, thread);
  });
}

}  // namespace laconic
