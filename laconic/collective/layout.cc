#include "laconic/collective/layout.h"

#include <algorithm>

#include "laconic/wire/chunk.h"

namespace laconic::inline collective {
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

CodecOptions options_of(const MeanConfig& config) {
  return {.scale_block = config.scale_block,
          .scale_norm = config.scale_norm,
          .quant_block = config.quant_block};
}

bool draws(const MeanConfig& config) noexcept { return config.codec == "random-sign"; }
bool votes(const MeanConfig& config) noexcept { return config.codec == kVote; }

std::string_view codec_that_runs(const MeanConfig& config, int per_node, int nodes) {
  const bool one_node = nodes == 1 && per_node > 1 && !sends_signs(config);
  const bool gives_way = one_node && !make_codec(config.codec, options_of(config))->exact();
  return gives_way ? std::string_view("fp32") : std::string_view(config.codec);
}

Layout layout_of(const MeanConfig& config, int per_node, int nodes, int useful_slices) {
  constexpr std::size_t kLargestExact = std::size_t{1} << 20, kLargest = std::size_t{8} << 20;
  if (sends_signs(config))
    return {config.elements, per_node, nodes, kTile, kLargest, useful_slices};
  // Blocks are those of the codec that was asked for: they are bad as a whole even if another runs.
  const auto asked = make_codec(config.codec, options_of(config));
  const std::size_t grain = asked->exact() ? tile_of(config.scale_block) : asked->block();
  const bool exact = make_codec(codec_that_runs(config, per_node, nodes))->exact();
  return {config.elements, per_node, nodes, grain, exact ? kLargestExact : kLargest, useful_slices};
}

Sizes sizes_of(const Codec& codec, std::size_t capacity) {
  const std::size_t message = codec.message_size(capacity);
  return {.share = sizeof(float) * capacity, .up = message, .down = message};
}

Sizes sign_sizes(const MeanConfig& config, int per_node, int nodes, std::size_t capacity) {
  const std::size_t signs = wire::random_signs_size(capacity);
  const auto counts = [&](int ranks) {
    return wire::counts_size(capacity, kernels::planes_of(ranks));
  };
  const bool votes_of_ranks = votes(config);
  const int voters = votes_of_ranks ? nodes * per_node : nodes;
  return {.share = votes_of_ranks ? wire::votes_size(capacity) : wire::ratios_size(capacity),
          .up = votes_of_ranks && per_node > 1 ? counts(per_node) : signs,
          .down = config.form == RandomForm::kCount ? counts(voters) : signs};
}

Sizes sizes_of(const MeanConfig& config, int per_node, int nodes, std::size_t capacity) {
  if (sends_signs(config)) return sign_sizes(config, per_node, nodes, capacity);
  return sizes_of(*make_codec(codec_that_runs(config, per_node, nodes), options_of(config)),
                  capacity);
}

Dealing::Dealing(std::size_t elements, int ranks, int useful_slices)
    : words(wire::words(elements)) {
  const auto of_run = static_cast<std::size_t>(ranks);
  runs = (words + of_run - 1) / of_run;
  const std::size_t wanted = slice_elements(elements, elements, useful_slices) / wire::kWord;
  // Slices start at whole tiles, so activity and bits of a tile lie together.
  runs_per_slice =
      std::min(runs, round_up(std::max<std::size_t>(wanted / of_run, 1), kTile / wire::kWord));
  slices = runs == 0 ? 0 : (runs + runs_per_slice - 1) / runs_per_slice;
}

std::size_t Dealing::runs_of(std::size_t slice) const noexcept {
  return std::min(runs_per_slice, runs - slice * runs_per_slice);
}

std::size_t Dealing::message_size(std::size_t slice) const noexcept {
  return wire::random_signs_size(runs_of(slice) * wire::kWord);
}

}  // namespace laconic::inline collective
