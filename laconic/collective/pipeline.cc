#include "laconic/collective/pipeline.h"

#include <algorithm>

#include "laconic/core/error.h"

namespace laconic::inline collective {
namespace {

std::size_t times(int count, std::size_t size) { return static_cast<std::size_t>(count) * size; }

}  // namespace

Pipeline::Pipeline(std::size_t elements, const Nodes& nodes, const Layout& layout,
                   std::unique_ptr<Coder> coder, Conveyor* conveyor)
    : elements_(elements),
      nodes_(nodes),
      layout_(layout),
      coder_(std::move(coder)),
      own_(conveyor ? nullptr : std::make_unique<Conveyor>(nodes, Outbox::kLag)),
      conveyor_(conveyor ? *conveyor : *own_),
      inside_(conveyor_.inside()),
      between_(conveyor_.between()),
      part_(times(nodes.per_node, 1)),
      ranges_(times(nodes.nodes, 1)),
      messages_(ranges_.size()),
      owners_(ranges_.size()) {
  const std::size_t slices = layout_.slices();
  if (slices == 0) return;
  const Sizes longest = sizes(0);
  encoded_ = {between_, *nodes_.messages, Kind::kAllToAll, times(nodes_.nodes, longest.up), slices};
  combined_ = {between_, *nodes_.messages, Kind::kAllGather, longest.down, slices};
  if (!hierarchical()) return;
  const int chunks = nodes_.per_node * nodes_.nodes;
  shared_ = {inside_, *nodes_.messages, Kind::kAllToAll, times(chunks, longest.share), slices};
  forwarded_ = {inside_, *nodes_.messages, Kind::kAllGather, times(nodes_.nodes, longest.down),
                slices};
}

void Pipeline::begin(const Source& source, const Sink& sink, const Round& round) {
  if (source_) conveyor_.drain();
  coder_->begin(round);
  source_ = source;
  sink_ = sink;
  conveyor_.carry(*this);
}

void Pipeline::work(std::size_t phase, std::size_t slice) {
  if (!hierarchical())
    return phase == 0 ? encode(slice) : phase == 1 ? combine(slice) : decode(slice);
  switch (phase) {
    case 0: return share(slice);
    case 1: return encode(slice);
    case 2: return combine(slice);
    case 3: return forwarded_.forward(slice, between_, sizes(slice).down);
    default: return decode(slice);
  }
}

void Pipeline::rest() {
  source_.reset();
  sink_.reset();
  for (Outbox* outbox : {&shared_, &encoded_, &combined_, &forwarded_}) outbox->rest();
}

void Pipeline::share(std::size_t slice) {
  const std::size_t size = sizes(slice).share;
  const std::size_t block = times(nodes_.nodes, size);
  const auto out = shared_.prepare(slice, times(nodes_.per_node, block));
  const TimeSpan noted(nodes_.timeline, "share", Timeline::kExchange);
  for (int shard = 0; shard < nodes_.per_node; ++shard)
    for (int chunk = 0; chunk < nodes_.nodes; ++chunk)
      coder_->share(layout_.range(shard, chunk, slice), *source_,
                    out.subspan(times(shard, block) + times(chunk, size), size));
  shared_.post(slice);
}

void Pipeline::encode(std::size_t slice) {
  std::span<const std::byte* const> shares;
  const Sizes size = sizes(slice);
  if (hierarchical()) shares = inside_.arrive(times(nodes_.nodes, size.share));
  const auto out = encoded_.prepare(slice, times(nodes_.nodes, size.up));
  const TimeSpan noted(nodes_.timeline, "encode", Timeline::kExchange);
  for (int chunk = 0; chunk < nodes_.nodes; ++chunk) {
    const Range range = layout_.range(nodes_.local, chunk, slice);
    ranges_[times(chunk, 1)] = range;
    if (!hierarchical()) continue;
    for (std::size_t r = 0; r < shares.size(); ++r) part_[r] = shares[r] + times(chunk, size.share);
    coder_->encode_node(range, {part_.data(), shares.size()},
                        out.subspan(times(chunk, size.up), size.up));
  }
  if (!hierarchical()) coder_->encode(ranges_, *source_, out);
  encoded_.post(slice);
}

void Pipeline::combine(std::size_t slice) {
  const auto out = combined_.prepare(slice, sizes(slice).down);
  const auto messages = between_.arrive(sizes(slice).up);
  const TimeSpan noted(nodes_.timeline, "combine", Timeline::kExchange);
  coder_->combine(layout_.range(nodes_.local, nodes_.node, slice), messages, out);
  combined_.post(slice);
}

void Pipeline::decode(std::size_t slice) {
  const std::size_t size = sizes(slice).down;
  const auto arrived =
      hierarchical() ? inside_.arrive(times(nodes_.nodes, size)) : between_.arrive(size);
  const TimeSpan noted(nodes_.timeline, "decode", Timeline::kExchange);
  for (int shard = 0; shard < nodes_.per_node; ++shard) {
    for (int chunk = 0; chunk < nodes_.nodes; ++chunk) {
      const std::size_t i = times(chunk, 1);
      ranges_[i] = layout_.range(shard, chunk, slice);
      messages_[i] = hierarchical() ? arrived[times(shard, 1)] + times(chunk, size) : arrived[i];
      owners_[i] = nodes_.rank_of(chunk, shard);
    }
    coder_->decode(ranges_, messages_, owners_, *sink_);
  }
}

std::string Pipeline::describe() const {
  return hierarchical() ? fmt::format("{}, {} nodes of {} ranks", coder_->describe(), nodes_.nodes,
                                      nodes_.per_node)
                        : fmt::format("{}, {} ranks", coder_->describe(), nodes_.nodes);
}

}  // namespace laconic::inline collective
