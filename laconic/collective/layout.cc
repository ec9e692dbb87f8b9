#include "laconic/collective/layout.h"

#include <algorithm>

#include "laconic/wire/chunk.h"

namespace laconic {
namespace {

// The length of each of `parts` equal parts, in whole words.
std::size_t part_length(std::size_t elements, std::size_t parts) {
  return round_up((elements + parts - 1) / parts, 64);
}

Range part(std::size_t begin, std::size_t count, std::size_t length, std::size_t index) {
  const std::size_t from = std::min(count, index * length);
  return {begin + from, std::min(length, count - from), length};
}

}  // namespace

std::size_t slice_elements(std::size_t elements, std::size_t largest, int useful) {
  constexpr std::size_t kSmallest = std::size_t{256} << 10;
  return std::max(kSmallest, std::min(elements / static_cast<std::size_t>(useful), largest));
}

Layout::Layout(std::size_t elements, int per_node, int nodes, std::size_t grain,
               std::size_t largest_slice, int useful_slices)
    : elements_(elements),
      per_node_(static_cast<std::size_t>(per_node)),
      nodes_(static_cast<std::size_t>(nodes)),
      grain_(grain),
      shard_length_(part_length(elements, static_cast<std::size_t>(per_node))),
      longest_chunk_(part_length(std::min(elements, shard_length_), nodes_)) {
  const std::size_t wanted = slice_elements(elements, largest_slice, useful_slices);
  const std::size_t of_chunk = wanted / (nodes_ * static_cast<std::size_t>(per_node));
  slice_length_ = grain == 0 ? longest_chunk_
                             : std::min(longest_chunk_, round_up(std::max(of_chunk, grain), grain));
  slices_ = slice_length_ == 0 ? 0 : (longest_chunk_ + slice_length_ - 1) / slice_length_;
}

std::size_t Layout::capacity(std::size_t slice) const noexcept {
  return std::min(slice_length_, longest_chunk_ - slice * slice_length_);
}

std::vector<std::size_t> Layout::blocks() const {
  std::vector<std::size_t> begins;
  for (std::size_t s = 0; s < per_node_; ++s)
    for (std::size_t c = 0; c < nodes_; ++c) {
      const Range of = chunk(static_cast<int>(s), static_cast<int>(c));
      const std::size_t block = grain_ == 0 ? of.count : grain_;
      for (std::size_t at = 0; at < of.count; at += block) begins.push_back(of.begin + at);
    }
  return begins;
}

Range Layout::shard(int shard) const noexcept {
  return part(0, elements_, shard_length_, static_cast<std::size_t>(shard));
}

Range Layout::chunk(int shard, int chunk) const noexcept {
  const Range of = this->shard(shard);
  return part(of.begin, of.count, part_length(of.count, nodes_), static_cast<std::size_t>(chunk));
}

Range Layout::range(int shard, int chunk, std::size_t slice) const noexcept {
  const Range of = this->chunk(shard, chunk);
  const std::size_t from = std::min(of.count, slice * slice_length_);
  const std::size_t fits = capacity(slice);
  return {of.begin + from, std::min(fits, of.count - from), fits};
}

MeanKind kind_that_runs(MeanKind asked, int per_node, int nodes) noexcept {
  return asked == MeanKind::kOneBit && nodes == 1 && per_node > 1 ? MeanKind::kDense : asked;
}

Layout layout_of(const MeanConfig& config, int per_node, int nodes, int useful_slices) {
  // Of what was asked for: blocks are bad as a whole in an exact one-bit mean too.
  const std::size_t grain = config.kind == MeanKind::kOneBit  ? config.scale_block
                            : config.kind == MeanKind::kDense ? tile_of(config)
                                                              : Mean::kTile;
  const std::size_t largest = kind_that_runs(config.kind, per_node, nodes) == MeanKind::kDense
                                  ? std::size_t{1} << 20
                                  : std::size_t{8} << 20;
  return {config.elements, per_node, nodes, grain, largest, useful_slices};
}

Dealing::Dealing(std::size_t elements, int ranks, int useful_slices)
    : words(wire::words(elements)) {
  const auto of_run = static_cast<std::size_t>(ranks);
  runs = (words + of_run - 1) / of_run;
  const std::size_t wanted = slice_elements(elements, elements, useful_slices) / wire::kWord;
  // Slices start at whole tiles, so activity and bits of a tile lie together.
  runs_per_slice = std::min(
      runs, round_up(std::max<std::size_t>(wanted / of_run, 1), Mean::kTile / wire::kWord));
  slices = runs == 0 ? 0 : (runs + runs_per_slice - 1) / runs_per_slice;
}

std::size_t Dealing::runs_of(std::size_t slice) const noexcept {
  return std::min(runs_per_slice, runs - slice * runs_per_slice);
}

}  // namespace laconic
