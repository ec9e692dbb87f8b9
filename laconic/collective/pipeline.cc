#include "laconic/collective/pipeline.h"

#include <algorithm>
#include <cstring>

#include "laconic/core/error.h"

namespace laconic {
namespace {

std::size_t times(int count, std::size_t size) { return static_cast<std::size_t>(count) * size; }

}  // namespace

Pipeline::Pipeline(std::size_t elements, const Nodes& nodes, const Layout& layout,
                   std::unique_ptr<Coder> coder)
    : elements_(elements),
      nodes_(nodes),
      layout_(layout),
      coder_(std::move(coder)),
      inside_(nodes.inside.get()),
      between_(&nodes.between()),
      part_(times(nodes.per_node, 1)) {
  const std::size_t slices = layout_.slices();
  if (slices == 0) return;
  const std::size_t longest = layout_.capacity(0);
  const std::size_t served = coder_->served_size(longest);
  codes_ = {between_, *nodes_.messages, Kind::kAllToAll,
            times(nodes_.nodes, coder_->coded_size(longest)), slices};
  served_ = {between_, *nodes_.messages, Kind::kAllGather, served, slices};
  if (!hierarchical()) return;
  const std::size_t share = times(nodes_.nodes, coder_->share_size(longest));
  shares_ = {inside_, *nodes_.messages, Kind::kAllToAll, times(nodes_.per_node, share), slices};
  forwarded_ = {inside_, *nodes_.messages, Kind::kAllGather, times(nodes_.nodes, served), slices};
}

void Pipeline::share(std::size_t slice, Fill fill) {
  const std::size_t size = coder_->share_size(layout_.capacity(slice));
  const std::size_t block = times(nodes_.nodes, size);
  const auto out = shares_.prepare(slice, times(nodes_.per_node, block));
  for (int shard = 0; shard < nodes_.per_node; ++shard)
    for (int chunk = 0; chunk < nodes_.nodes; ++chunk)
      coder_->share(layout_.range(shard, chunk, slice), fill,
                    out.subspan(times(shard, block) + times(chunk, size), size));
  shares_.post(slice);
}

void Pipeline::code(std::size_t slice, Fill fill) {
  std::span<const std::byte* const> shares;
  const std::size_t share = coder_->share_size(layout_.capacity(slice));
  if (hierarchical()) shares = inside_.arrive(times(nodes_.nodes, share));
  const std::size_t size = coder_->coded_size(layout_.capacity(slice));
  const auto out = codes_.prepare(slice, times(nodes_.nodes, size));
  for (int chunk = 0; chunk < nodes_.nodes; ++chunk) {
    const Range range = layout_.range(nodes_.local, chunk, slice);
    const auto to = out.subspan(times(chunk, size), size);
    if (!hierarchical()) {
      coder_->code(range, fill, to);
      continue;
    }
    for (std::size_t r = 0; r < shares.size(); ++r) part_[r] = shares[r] + times(chunk, share);
    const std::span<const std::byte* const> of_chunk(part_.data(), shares.size());
    coder_->code(
        range,
        [&](Tile& tile) {
          if (tile.fallback)
            std::fill_n(tile.values, tile.count, 0.0F);
          else
            coder_->join(range, of_chunk, tile);
          return true;
        },
        to);
  }
  codes_.post(slice);
}

void Pipeline::serve(std::size_t slice) {
  const auto out = served_.prepare(slice, coder_->served_size(layout_.capacity(slice)));
  const auto coded = between_.arrive(coder_->coded_size(layout_.capacity(slice)));
  coder_->serve(layout_.range(nodes_.local, nodes_.node, slice), coded, out);
  served_.post(slice);
}

void Pipeline::forward(std::size_t slice) {
  const std::size_t size = coder_->served_size(layout_.capacity(slice));
  const auto out = forwarded_.prepare(slice, times(nodes_.nodes, size));
  const auto served = between_.arrive(size);
  for (std::size_t k = 0; k < served.size(); ++k)
    std::memcpy(out.data() + k * size, served[k], size);
  forwarded_.post(slice);
}

void Pipeline::take(std::size_t slice, Take take) {
  const std::size_t size = coder_->served_size(layout_.capacity(slice));
  const auto blocks =
      hierarchical() ? inside_.arrive(times(nodes_.nodes, size)) : between_.arrive(size);
  for (int shard = 0; shard < nodes_.per_node; ++shard)
    for (int chunk = 0; chunk < nodes_.nodes; ++chunk) {
      const std::byte* served =
          hierarchical() ? blocks[times(shard, 1)] + times(chunk, size) : blocks[times(chunk, 1)];
      coder_->take(layout_.range(shard, chunk, slice), {served, size}, nodes_.rank_of(chunk, shard),
                   take);
    }
}

void Pipeline::exchange(Fill fill, Take take, const Round& round) {
  const std::size_t slices = layout_.slices();
  coder_->begin(round);
  const std::size_t phases = hierarchical() ? 5 : 3;
  for (std::size_t tick = 0; tick < slices + (phases - 1) * Outbox::kLag; ++tick) {
    const auto at = [&](std::size_t phase, auto work) {
      if (tick >= phase * Outbox::kLag && tick - phase * Outbox::kLag < slices)
        work(tick - phase * Outbox::kLag);
    };
    std::size_t phase = 0;
    if (hierarchical()) at(phase++, [&](std::size_t slice) { share(slice, fill); });
    at(phase++, [&](std::size_t slice) { code(slice, fill); });
    at(phase++, [&](std::size_t slice) { serve(slice); });
    if (hierarchical()) at(phase++, [&](std::size_t slice) { forward(slice); });
    at(phase++, [&](std::size_t slice) { this->take(slice, take); });
  }
  between_.finish();
  inside_.finish();
  for (Outbox* outbox : {&shares_, &codes_, &served_, &forwarded_}) outbox->rest();
}

std::string Pipeline::describe() const {
  return hierarchical() ? fmt::format("{}, {} nodes of {} ranks", coder_->describe(), nodes_.nodes,
                                      nodes_.per_node)
                        : fmt::format("{}, {} ranks", coder_->describe(), nodes_.nodes);
}

}  // namespace laconic
