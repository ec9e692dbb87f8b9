#pragma once

#include "laconic/collective/coder.h"

namespace laconic::inline collective {

constexpr std::size_t round_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// How much of a vector a slice should hold, at most `largest` elements if that is not too few.
// Slices let coding overlap with sending: `useful` of them are enough, and small ones cost more
// than they hide.
std::size_t slice_elements(std::size_t elements, std::size_t largest, int useful);

// Who owns what. The vector is cut into one shard per local rank, each shard into one chunk per
// node, each chunk into the same number of slices. Lengths are rounded up to whole words, so the
// last ones may be short or empty.
class Layout {
 public:
  // Slices are cut at multiples of `grain` in a chunk (0: not at all), at most `largest_slice` of
  // the vector each.
  Layout(std::size_t elements, int per_node, int nodes, std::size_t grain,
         std::size_t largest_slice, int useful_slices = Transport::kUsefulSlices);

  std::size_t slices() const noexcept { return slices_; }
  // Elements that messages of slice k are made for: the same for all shards and chunks.
  std::size_t capacity(std::size_t slice) const noexcept;
  Range range(int shard, int chunk, std::size_t slice) const noexcept;
  // Where the blocks of `grain` elements of all chunks begin, ascending.
  std::vector<std::size_t> blocks() const;
  Range shard(int shard) const noexcept;
  Range chunk(int shard, int chunk) const noexcept;

 private:
  std::size_t elements_, per_node_, nodes_, grain_;
  std::size_t shard_length_, longest_chunk_, slice_length_, slices_;
};

CodecOptions options_of(const MeanConfig& config);

// Whether the mean draws random signs, or counts votes; all other codecs are those of make_codec.
bool draws(const MeanConfig& config) noexcept;
bool votes(const MeanConfig& config) noexcept;
// Either: no codec, no scales, no residual.
inline bool sends_signs(const MeanConfig& config) noexcept {
  return draws(config) || votes(config);
}

// The codec that really runs: inside a single node of several ranks a lossy one is replaced by fp32.
std::string_view codec_that_runs(const MeanConfig& config, int per_node, int nodes);

// The layout of the mean that make_mean makes. REQUIRES: not a single round.
Layout layout_of(const MeanConfig& config, int per_node, int nodes, int useful_slices);

// Bytes of the messages for a slice of `capacity` elements, as coders and the planner count them.
Sizes sizes_of(const Codec& codec, std::size_t capacity);
Sizes sign_sizes(const MeanConfig& config, int per_node, int nodes, std::size_t capacity);
// Of the mean that make_mean makes. REQUIRES: not a single round.
Sizes sizes_of(const MeanConfig& config, int per_node, int nodes, std::size_t capacity);

// How a single round deals words to ranks: in runs of one word per rank, slices of whole runs.
struct Dealing {
  std::size_t words = 0, runs = 0, runs_per_slice = 0, slices = 0;

  Dealing(std::size_t elements, int ranks, int useful_slices);
  std::size_t runs_of(std::size_t slice) const noexcept;
  // Bytes of a rank's message of slice k.
  std::size_t message_size(std::size_t slice) const noexcept;
};

}  // namespace laconic::inline collective
