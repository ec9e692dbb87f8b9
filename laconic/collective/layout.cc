#include "laconic/collective/layout.h"

#include <algorithm>
#include <numeric>

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

Layout::Layout(std::size_t elements, int per_node, int nodes, std::size_t block,
               std::size_t largest_slice, int useful_slices, std::size_t other_block)
    : elements_(elements),
      per_node_(static_cast<std::size_t>(per_node)),
      nodes_(static_cast<std::size_t>(nodes)),
      block_(block),
      shard_length_(part_length(elements, static_cast<std::size_t>(per_node))),
      longest_chunk_(part_length(std::min(elements, shard_length_), nodes_)) {
  const std::size_t grain = std::lcm(block, other_block);
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
      const std::size_t block = block_ == 0 ? of.count : block_;
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
          .quant_block = config.quant_block,
          .top_k = config.top_k};
}

bool draws(const MeanConfig& config) noexcept { return config.codec == "random-sign"; }

std::string_view codec_down_of(const MeanConfig& config) {
  return config.codec_down.empty() ? make_codec(config.codec)->way_back()
                                   : std::string_view(config.codec_down);
}

std::string_view codec_that_runs(const MeanConfig& config, int per_node, int nodes) {
  const bool one_node = nodes == 1 && per_node > 1 && !draws(config);
  const bool gives_way = one_node && !make_codec(config.codec, options_of(config))->exact();
  return gives_way ? std::string_view("fp32") : std::string_view(config.codec);
}

Codecs codecs_that_run(const MeanConfig& config, int per_node, int nodes) {
  const std::string_view up = codec_that_runs(config, per_node, nodes);
  const std::string_view down = up == config.codec ? codec_down_of(config) : up;
  return {make_codec(up, options_of(config)), make_codec(down, options_of(config))};
}

Layout layout_of(const MeanConfig& config, int per_node, int nodes, int useful_slices) {
  constexpr std::size_t kLargestExact = std::size_t{1} << 20, kLargest = std::size_t{8} << 20;
  if (draws(config)) return {config.elements, per_node, nodes, kTile, kLargest, useful_slices};
  // Blocks are those of the codec that was asked for: they are bad as a whole even if another runs.
  const auto asked = make_codec(config.codec, options_of(config));
  const std::size_t block = asked->exact() ? tile_of(config.scale_block) : asked->block();
  const Codecs run = codecs_that_run(config, per_node, nodes);
  return {config.elements,
          per_node,
          nodes,
          block,
          run.down->exact() ? kLargestExact : kLargest,
          useful_slices,
          run.down->exact() ? 1 : run.down->block()};
}

Sizes sizes_of(const Codecs& codecs, std::size_t capacity) {
  return {.share = sizeof(float) * capacity,
          .up = codecs.up->message_size(capacity),
          .down = codecs.down->message_size(capacity)};
}

Sizes random_sign_sizes(RandomForm form, int nodes, std::size_t capacity) {
  const std::size_t signs = wire::random_signs_size(capacity);
  return {.share = wire::ratios_size(capacity),
          .up = signs,
          .down = form == RandomForm::kCount
                      ? wire::counts_size(capacity, kernels::planes_of(nodes))
                      : signs};
}

Sizes sizes_of(const MeanConfig& config, int per_node, int nodes, std::size_t capacity) {
  if (draws(config)) return random_sign_sizes(config.form, nodes, capacity);
  return sizes_of(codecs_that_run(config, per_node, nodes), capacity);
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
