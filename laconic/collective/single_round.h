#pragma once

#include "laconic/collective/channel.h"
#include "laconic/collective/layout.h"
#include "laconic/collective/mean.h"

namespace laconic::inline collective {

// The consensus of random signs in one round: P(r = +1) = (1 + mean of u)/2 is the law of copying
// the bit of one rank drawn uniformly. Words of 64 elements are dealt: the n words of a run go to the n ranks
// by a random permutation that all ranks know, and each rank draws and sends only its own. In a
// hierarchy the all-gather goes between nodes first (E), then inside them (F).
class SingleRound final : public Mean {
 public:
  SingleRound(const MeanConfig& config, const Nodes& nodes, Device& device);

  void exchange(const Source& source, const Sink& sink, const Round& round) override;
  std::vector<State> state() override { return {}; }
  std::size_t elements() const noexcept override { return config_.elements; }
  std::vector<std::size_t> blocks() const override;
  std::string describe() const override;
  std::uint64_t bad_blocks() const noexcept override { return 0; }

 private:
  struct Slice {
    std::size_t first_run, runs, first_word, words, begin, count;
  };
  Slice slice(std::size_t index) const;
  std::uint16_t* owners(std::size_t index) const;
  bool hierarchical() const { return nodes_.per_node > 1; }

  void deal(std::size_t index);
  void encode(std::size_t index, const Source& source);
  void decode(std::size_t index, const Sink& sink);

  MeanConfig config_;
  const Nodes& nodes_;
  Device& device_;
  int ranks_;
  Dealing dealing_;
  Channel inside_, between_;
  Outbox sent_, forwarded_;
  kernels::Draw draw_;
  std::uint32_t sequence_ = 0;
  Buffer<std::uint16_t> owners_;        // of the words of the slices in flight
  Buffer<std::uint8_t> wanted_;         // of a slice: words that this rank sends, a byte each
  Buffer<std::uint64_t> bits_;          // of a slice
  Buffer<std::uint8_t> active_;         // of a slice, a bit per word
  std::vector<std::uint16_t> cards_;    // a permutation per thread
  std::vector<const std::byte*> from_;  // each rank's message
};

}  // namespace laconic::inline collective
