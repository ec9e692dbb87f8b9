#pragma once

#include "laconic/collective/pipeline.h"

namespace laconic::inline collective {

// The mean of fp32 values where it takes their place: a slice is cut into one part per rank, each
// part is sent to its owner from where it lies, added up where the owner's own lies, and received
// where the values were. Nothing is copied; short vectors of two ranks are gathered and added
// everywhere, in one round. Sums are those of a Pipeline, which serves every other source and sink.
// REQUIRES: every rank is a node, and the device is the host.
class InPlace final : public Mean {
 public:
  InPlace(std::unique_ptr<Pipeline> other, const Nodes& nodes, Device& device, Conveyor* conveyor);

  void begin(const Source& source, const Sink& sink, const Round& round) override;
  void exchange(const Source& source, const Sink& sink, const Round& round) override;
  std::vector<State> state() override { return other_->state(); }
  std::size_t elements() const noexcept override { return other_->elements(); }
  std::vector<std::size_t> blocks() const override { return other_->blocks(); }
  std::string describe() const override { return other_->describe(); }
  std::uint64_t bad_blocks() const noexcept override { return other_->bad_blocks(); }

 private:
  struct Slice {
    float* first;
    std::size_t part;  // elements of each rank
  };
  Slice slice(std::size_t index, float* values);
  // True: done.
  bool in_place(const Source& source, const Sink& sink);
  void exchange(float* values);
  bool gathers() const;
  void gather(float* values);
  void send(std::size_t index, const Slice& slice);
  void combine(std::size_t index, const Slice& slice);
  void receive(const Slice& slice);
  void add(std::span<const std::byte* const> messages, std::size_t count, float* to);

  std::unique_ptr<Pipeline> other_;
  Conveyor* conveyor_;  // of others, which end first; null: none
  Timeline* timeline_;
  Device& device_;
  Channel channel_;
  std::size_t ranks_, rank_;
  std::size_t whole_;  // elements that are whole words of every rank
  std::size_t slice_length_, slices_;
  Buffer<float> rest_;  // what is left, filled up with 0: the last slice; or all that is gathered
  std::unique_ptr<Codec> codec_;
  std::size_t sent_[Outbox::kLag + 1] = {};  // exchanges by which slices under way went out
};

}  // namespace laconic::inline collective
