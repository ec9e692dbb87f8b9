#pragma once

#include <optional>

#include "laconic/collective/coder.h"
#include "laconic/collective/conveyor.h"
#include "laconic/collective/layout.h"

namespace laconic::inline collective {

// Runs one coder over flat ranks or a hierarchy of nodes, slice by slice, so that a slice is
// encoded while others travel. The path of a slice (Hierarchical-1-bit-All-Reduce; share and
// forward fall away when every rank is a node), each line followed by its collective:
//
// clang-format off
//   A  share     this rank's values of every shard                      all-to-all inside the node
//   C  encode    the node's values of the own shard, for each owner     all-to-all between nodes
//   E  combine   all nodes' messages of the own chunk, encoded again    all-gather between nodes
//   F  forward   the combined chunks of the own shard                   all-gather inside the node
//      decode    every chunk of every shard
// clang-format on
class Pipeline final : public Mean {
 public:
  // Without a conveyor it has one of its own.
  Pipeline(std::size_t elements, const Nodes& nodes, const Layout& layout,
           std::unique_ptr<Coder> coder, Conveyor* conveyor);

  void begin(const Source& source, const Sink& sink, const Round& round) override;
  void exchange(const Source& source, const Sink& sink, const Round& round) override {
    begin(source, sink, round);
    conveyor_.drain();
  }
  std::vector<State> state() override { return coder_->state(); }
  std::size_t elements() const noexcept override { return elements_; }
  std::vector<std::size_t> blocks() const override { return layout_.blocks(); }
  double residual_ratio() const noexcept override { return coder_->residual_ratio(); }
  std::string describe() const override;
  std::uint64_t bad_blocks() const noexcept override { return coder_->bad_blocks(); }

  // For the conveyor: phases 0, 1, … of each slice in turn, as listed above; then the messages' memory
  // goes back once everyone has read them.
  std::size_t slices() const noexcept { return layout_.slices(); }
  void work(std::size_t phase, std::size_t slice);
  void rest();

 private:
  bool hierarchical() const { return nodes_.per_node > 1; }
  Sizes sizes(std::size_t slice) const { return coder_->sizes(layout_.capacity(slice)); }
  void share(std::size_t slice);
  void encode(std::size_t slice);
  void combine(std::size_t slice);
  void decode(std::size_t slice);

  std::size_t elements_;
  const Nodes& nodes_;
  Layout layout_;
  std::unique_ptr<Coder> coder_;
  std::unique_ptr<Conveyor> own_;  // null: shared with others
  Conveyor& conveyor_;
  Channel &inside_, &between_;
  std::optional<Source> source_;  // of the exchange under way; none: it has ended
  std::optional<Sink> sink_;
  Outbox shared_, encoded_, combined_, forwarded_;
  std::vector<const std::byte*> part_;
  // Of the chunks of a shard.
  std::vector<Range> ranges_;
  std::vector<const std::byte*> messages_;
  std::vector<int> owners_;
};

}  // namespace laconic::inline collective
