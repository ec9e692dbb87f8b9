#pragma once

#include "laconic/collective/channel.h"
#include "laconic/collective/coder.h"
#include "laconic/collective/layout.h"

namespace laconic {

// Runs one coder over flat ranks or a hierarchy of nodes, slice by slice, so that a slice is coded
// while others travel.
//
// Phases of a slice (Hierarchical-1-bit-All-Reduce; A and F fall away when every rank is a node):
//   A  share     inside the node, all-to-all: this rank's values of every shard
//   C  code      between nodes, all-to-all: the node's mean of the own shard, for each chunk's
//   owner E  serve     between nodes, all-gather: the mean of the own chunk, coded again F  forward
//   inside the node, all-gather: the served chunks of the own shard
//      take      every chunk of every shard is decoded
class Pipeline final : public Mean {
 public:
  Pipeline(std::size_t elements, const Nodes& nodes, const Layout& layout,
           std::unique_ptr<Coder> coder);

  void exchange(Fill fill, Take take, const Round& round) override;
  std::vector<State> state() override { return coder_->state(); }
  std::size_t elements() const noexcept override { return elements_; }
  std::vector<std::size_t> blocks() const override { return layout_.blocks(); }
  double residual_ratio() const noexcept override { return coder_->residual_ratio(); }
  std::string describe() const override;
  std::uint64_t bad_blocks() const noexcept override { return coder_->bad_blocks(); }

 private:
  bool hierarchical() const { return nodes_.per_node > 1; }
  void share(std::size_t slice, Fill fill);
  void code(std::size_t slice, Fill fill);
  void serve(std::size_t slice);
  void forward(std::size_t slice);
  void take(std::size_t slice, Take take);

  std::size_t elements_;
  const Nodes& nodes_;
  Layout layout_;
  std::unique_ptr<Coder> coder_;
  Channel inside_, between_;
  Outbox shares_, codes_, served_, forwarded_;
  std::vector<const std::byte*> part_;
};

}  // namespace laconic
