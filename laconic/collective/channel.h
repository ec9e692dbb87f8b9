#pragma once

#include <span>
#include <vector>

#include "laconic/core/buffer.h"
#include "laconic/transport/nodes.h"
#include "laconic/transport/timeline.h"
#include "laconic/transport/transport.h"

namespace laconic::inline collective {

// The exchanges of one transport during one exchange of a Mean, numbered from 1 as they are posted.
class Channel {
 public:
  // Without a transport it is a channel that nobody uses; without a time line nothing is noted.
  // Two channels of one mean have rows of their own there.
  Channel(Transport* transport, Timeline* timeline, bool second = false);

  std::size_t post(const Exchange& exchange, std::span<const std::byte> bytes);
  // One pointer per rank to blocks of `size` bytes, valid until the next arrive. Error(kCorrupt)
  // when the transport delivers another size.
  std::span<const std::byte* const> arrive(std::size_t size);
  void retire_until(std::size_t number);
  // Retires what is left; the numbers start again.
  void finish();
  // False in an exchange, and after one that threw.
  bool finished() const noexcept { return posted_ == 0; }
  std::size_t ranks() const noexcept { return blocks_.size(); }
  void keep(Buffer<std::byte> memory) noexcept { transport_->keep(std::move(memory)); }

 private:
  Transport* transport_;
  std::vector<const std::byte*> blocks_;
  std::size_t posted_ = 0, retired_ = 0;

  void note_arrival();
  static constexpr std::size_t kRows = 8;  // messages under way with a row of their own
  Timeline* timeline_;
  int first_row_;
  std::size_t arrived_ = 0;
  Timeline::Time sent_[kRows];
};

// The messages that one phase of a Mean sends: a ring of slots, each written again only after it
// retired. A phase works on slice t - phase*kLag at tick t; because all phases lag alike, exchanges
// arrive on each channel in the order in which they were posted. The channel and the spare memory,
// which holds the slots between two exchanges, outlive it.
class Outbox {
 public:
  static constexpr std::size_t kLag = 2;

  Outbox() = default;
  Outbox(Outbox&&) = default;
  Outbox& operator=(Outbox&&) = default;
  ~Outbox();
  Outbox(Channel& channel, SpareMemory& spare, Kind kind, std::size_t largest, std::size_t slices);

  // Call before the channel's arrive of the same tick, then write, then post.
  std::span<std::byte> prepare(std::size_t slice, std::size_t size);
  void post(std::size_t slice);
  // Posts what arrives next on `from`: one message of `size` bytes per rank there, side by side.
  void forward(std::size_t slice, Channel& from, std::size_t size);
  // Gives the memory back when everyone has read all that was posted. REQUIRES: it arrived here.
  void rest();

 private:
  static constexpr std::size_t kSlots = 3 * kLag;
  struct Slot {
    std::size_t number = 0, size = 0;
  };

  Channel* channel_ = nullptr;
  SpareMemory* spare_ = nullptr;
  Kind kind_ = Kind::kAllToAll;
  std::size_t slot_size_ = 0, size_ = 0;
  std::size_t last_ = 0;  // number of the last post
  Buffer<std::byte> memory_;
  Slot slots_[kSlots];
};

// Calls work(phase, slice) for every slice and phase, each phase as many slices behind the one before
// it as an Outbox allows for.
template <typename Work>
void in_turns(std::size_t slices, std::size_t phases, const Work& work) {
  for (std::size_t tick = 0; tick < slices + (phases - 1) * Outbox::kLag; ++tick)
    for (std::size_t phase = 0; phase < phases; ++phase) {
      const std::size_t late = phase * Outbox::kLag;
      if (tick >= late && tick - late < slices) work(phase, tick - late);
    }
}

}  // namespace laconic::inline collective
