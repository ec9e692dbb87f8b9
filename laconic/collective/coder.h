#pragma once

#include "laconic/collective/mean.h"

namespace laconic {

// A slice of a chunk: `count` real elements from `begin` on, in messages made for `capacity`
// elements.
struct Range {
  std::size_t begin = 0, count = 0, capacity = 0;
};

// How values become bytes and bytes a mean: what differs between the kinds. Used by a Pipeline,
// which knows who talks to whom. Calls for different ranges come one after the other; a call uses
// all threads of the pool.
class Coder {
 public:
  virtual ~Coder() = default;

  // Inside a node (hierarchies only): `share` writes this rank's values; `join` gives the node's
  // for a tile.
  virtual std::size_t share_size(std::size_t capacity) const = 0;
  virtual void share(const Range& range, Fill fill, std::span<std::byte> out) = 0;
  virtual void join(const Range& range, std::span<const std::byte* const> shares, Tile& tile) = 0;

  // Between nodes: a worker codes for the owner of the range, the owner serves all.
  virtual std::size_t coded_size(std::size_t capacity) const = 0;
  virtual void code(const Range& range, Fill source, std::span<std::byte> out) = 0;
  virtual std::size_t served_size(std::size_t capacity) const = 0;
  virtual void serve(const Range& range, std::span<const std::byte* const> coded,
                     std::span<std::byte> out) = 0;
  virtual void take(const Range& range, std::span<const std::byte> served, int owner,
                    Take take) = 0;

  virtual void begin(const Round& round) = 0;
  virtual std::vector<State> state() { return {}; }
  virtual std::uint64_t bad_blocks() const noexcept { return 0; }
  virtual double residual_ratio() const noexcept { return 0; }
  virtual std::string describe() const = 0;
};

// What a coder may know of where it runs.
struct Place {
  int rank = 0;    // in the world
  int voices = 1;  // how many code for an owner: the nodes
  int per_node = 1;
  std::size_t shard_begin = 0, shard_count = 0;  // what this rank codes
  std::size_t chunk_begin = 0, chunk_count = 0;  // what this rank owns
};

std::unique_ptr<Coder> make_dense_coder(const MeanConfig& config, const Place& place, Pool& pool);
std::unique_ptr<Coder> make_one_bit_coder(const MeanConfig& config, const Place& place, Pool& pool);
std::unique_ptr<Coder> make_random_sign_coder(const MeanConfig& config, const Place& place,
                                              Pool& pool);

// The longest run of whole scale blocks that fits a tile; a tile where blocks are longer.
inline std::size_t tile_of(const MeanConfig& config) {
  const std::size_t block = config.scale_block;
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
