#pragma once

#include <array>
#include <vector>

#include "laconic/collective/channel.h"

namespace laconic::inline collective {

class Pipeline;

// Takes slices of exchanges through the phases of their pipelines: phase p works on the slice that
// came p*lag before the newest one, so that slices are coded while others travel, and the exchanges
// of each channel arrive in the order in which they were posted. An exchange may stay on it, not
// ended, until later ones have pushed its slices through: then the wire has the next exchange's
// messages while this one's mean is under way. All ranks put the same exchanges on it in the same
// order. One thread at a time. Pipelines that use it are gone first.
class Conveyor {
 public:
  // Of exchanges that overlap. Where each is one slice, a mean waits for no more than the next one;
  // slices of longer ones come quickly, and more of them under way hide more of the latency.
  static std::size_t lag_for(std::size_t longest_exchange, int useful_slices);

  Conveyor(const Nodes& nodes, std::size_t lag);

  Channel& inside() noexcept { return inside_; }
  Channel& between() noexcept { return between_; }

  // All slices of an exchange that has begun; the last ones stay on it while it lingers.
  void carry(Pipeline& exchange);
  // Ends all exchanges. Before anybody else uses the nodes' transports.
  void drain();
  // False: ends all exchanges, and every later one as it is carried.
  void linger(bool lingers) {
    lingers_ = lingers;
    if (!lingers) drain();
  }

 private:
  struct Item {
    Pipeline* exchange = nullptr;  // null: nothing
    std::size_t slice = 0;
    int bucket = -1;  // for the time line
  };
  static constexpr std::size_t kPlaces = 16;

  void push(const Item& item);
  void release(std::size_t most);

  Timeline* timeline_;
  Channel inside_, between_;
  const std::size_t phases_, lag_;
  bool lingers_ = false;
  std::array<Item, kPlaces> items_;  // a ring; number n is in place n % kPlaces
  std::size_t pushed_ = 0;
  std::vector<Pipeline*> ended_;  // whose messages others may still read, the oldest first
};

}  // namespace laconic::inline collective
