#pragma once

#include <memory>
#include <optional>

#include "laconic/transport/transport.h"

namespace laconic::app {

// What ranks tell each other about every step beside gradients: the loss, and whether to stop. It
// travels while the next step is computed, so nobody waits for it; it takes 16 bytes a rank, which
// are not in the figures of the optimizer. One thread at a time, between steps.
class Control {
 public:
  struct Said {
    double loss = 0;  // the mean over ranks
    int stop = 0;     // the largest; 0: nobody wishes to
  };

  // Collective.
  explicit Control(Transport& engine);
  void post(double loss, int stop);
  // What everyone posted last; nothing if that was taken already.
  std::optional<Said> take();
  // For other rounds between steps. REQUIRES: take() was called since post().
  Transport& transport() noexcept { return *transport_; }

 private:
  struct Message {
    double loss, stop;
  };
  std::unique_ptr<Transport> transport_;
  Message mine_{};
  bool posted_ = false;
};

}  // namespace laconic::app
