#include "laconic/collective/channel.h"

#include <algorithm>
#include <cstring>

#include "laconic/transport/engine.h"

namespace laconic::inline collective {

Channel::Channel(Transport* transport, Timeline* timeline, bool second)
    : transport_(transport),
      blocks_(transport ? static_cast<std::size_t>(transport->size()) : 0),
      timeline_(timeline),
      first_row_(Timeline::kWire + (second ? static_cast<int>(kRows) : 0)) {}

std::size_t Channel::post(const Exchange& exchange, std::span<const std::byte> bytes) {
  if (timeline_ && timeline_->on()) sent_[posted_ % kRows] = Timeline::Clock::now();
  transport_->post(exchange, bytes);
  return ++posted_;
}

// The time line may have been started while messages were under way.
void Channel::note_arrival() {
  const std::size_t row = arrived_++ % kRows;
  if (!timeline_ || !timeline_->on() || sent_[row] == Timeline::Time{}) return;
  timeline_->add("wire", first_row_ + static_cast<int>(row), timeline_->bucket(), sent_[row],
                 Timeline::Clock::now());
  sent_[row] = {};
}

std::span<const std::byte* const> Channel::arrive(std::size_t size) {
  const Blocks blocks = transport_->arrive();
  note_arrival();
  check_block_size(blocks, size);
  for (std::size_t r = 0; r < blocks_.size(); ++r) blocks_[r] = blocks[static_cast<int>(r)].data();
  return blocks_;
}

void Channel::retire_until(std::size_t number) {
  for (; retired_ < number; ++retired_) transport_->retire();
}

void Channel::finish() {
  retire_until(posted_);
  posted_ = retired_ = arrived_ = 0;
}

Outbox::Outbox(Channel& channel, SpareMemory& spare, Kind kind, std::size_t largest,
               std::size_t slices)
    : channel_(&channel),
      spare_(&spare),
      kind_(kind),
      slot_size_((largest + 63) / 64 * 64),
      size_(slot_size_ * std::min(kSlots, slices)) {}

// Others may still read the messages of an exchange that threw here.
Outbox::~Outbox() {
  if (memory_.data() != nullptr && !channel_->finished()) channel_->keep(std::move(memory_));
}

std::span<std::byte> Outbox::prepare(std::size_t slice, std::size_t size) {
  if (memory_.empty()) memory_ = spare_->take(size_);
  Slot& slot = slots_[slice % kSlots];
  if (slice >= kSlots) channel_->retire_until(slot.number);
  slot.size = size;
  return {memory_.data() + slice % kSlots * slot_size_, size};
}

void Outbox::post(std::size_t slice) {
  Slot& slot = slots_[slice % kSlots];
  const std::byte* bytes = memory_.data() + slice % kSlots * slot_size_;
  last_ = slot.number = channel_->post({.kind = kind_, .continues = slice > 0}, {bytes, slot.size});
}

void Outbox::rest() {
  if (memory_.empty()) return;
  channel_->retire_until(last_);
  spare_->give(std::move(memory_));
  memory_ = {};
}

void Outbox::forward(std::size_t slice, Channel& from, std::size_t size) {
  const auto out = prepare(slice, from.ranks() * size);
  const auto messages = from.arrive(size);
  for (std::size_t r = 0; r < messages.size(); ++r)
    std::memcpy(out.data() + r * size, messages[r], size);
  post(slice);
}

}  // namespace laconic::inline collective
