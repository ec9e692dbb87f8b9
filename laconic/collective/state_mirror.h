#pragma once

#include "laconic/collective/mean.h"
#include "laconic/core/buffer.h"

namespace laconic::inline collective {

// State of a device as its owner shows it to others: in memory of the host. Where that is not the
// device's own, copies, which the device takes up when the others are done with them.
class StateMirror {
 public:
  explicit StateMirror(Device& device) : device_(device) {}

  // `states` with values of the host, as they are now. The copies stay where they are.
  std::vector<State> show(std::vector<State> states);
  // What was written to the copies since show().
  void take_up();

 private:
  struct Copy {
    std::span<float> there;
    Buffer<float> here;
  };
  Device& device_;
  std::vector<Copy> copies_;
  bool shown_ = false;
};

}  // namespace laconic::inline collective
