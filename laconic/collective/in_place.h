#pragma once

#include "laconic/collective/pipeline.h"

namespace laconic::inline collective {

// The exact mean of values where it takes their place: a slice is cut into one part per rank, each
// part is sent to its owner, added up where the owner's own lies, and received where the values
// were. fp32 is sent and received where it lies; of bf16 the owner's part is neither encoded nor
// decoded. Short vectors of two ranks are gathered and added everywhere, in one round. Results are
// those of a Pipeline, which serves every other source and sink. REQUIRES: every rank is a node,
// there are at least two, and the device is the host.
class InPlace final : public Mean {
 public:
  // `codec` is "fp32", or one that combines_own.
  InPlace(std::string_view codec, std::unique_ptr<Pipeline> other, const Nodes& nodes,
          Device& device, Conveyor* conveyor);

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
  void gather_encoded(float* values);
  void send(std::size_t index, const Slice& slice);
  void combine(std::size_t index, const Slice& slice);
  void receive(const Slice& slice);
  // Values to a message and back.
  void encode(const float* values, std::size_t count, std::byte* message);
  void decode(const std::byte* message, std::size_t count, float* values);
  // The mean goes to `out`; of encoded messages to `own` as well.
  void add(std::span<const std::byte* const> messages, std::size_t count, std::byte* out,
           float* own = nullptr);
  // Without this rank's.
  std::span<const std::byte* const> others(std::span<const std::byte* const> messages);

  std::unique_ptr<Pipeline> other_;
  Conveyor* conveyor_;  // of others, which end first; null: none
  Timeline* timeline_;
  Device& device_;
  Channel channel_;
  std::unique_ptr<Codec> codec_;
  const bool encodes_;  // values are not sent as they are
  std::size_t ranks_, rank_;
  std::size_t whole_;  // elements that are whole words of every rank
  std::size_t slice_length_, gathered_, slices_;
  Buffer<float> rest_;  // what is left, filled up with 0: the last slice; or all that is gathered
  std::size_t sent_[Outbox::kLag + 1] = {};  // exchanges by which slices under way went out
  Outbox encoded_, combined_;
  std::vector<const std::byte*> messages_;
};

}  // namespace laconic::inline collective
