#pragma once

#include <memory>
#include <optional>

#include "laconic/transport/transport.h"

namespace laconic::app::training {

// What ranks tell each other about every step beside gradients: the loss, how much was left
// unsaid, and whether to stop. It travels while the next step is computed, so nobody waits for it;
// it takes 24 bytes a rank, which are not in the figures of the optimizer. One thread at a time,
// between steps.
class Control {
 public:
  struct Said {
    double loss = 0;      // the mean over ranks
    double residual = 0;  // the largest
    int stop = 0;         // the largest; 0: nobody wishes to
  };

  // Collective.
  explicit Control(Transport& engine);
  void post(double loss, double residual, int stop);
  // What everyone posted last; nothing if that was taken already.
  std::optional<Said> take();
  // For other rounds between steps. REQUIRES: take() was called since post().
  Transport& transport() noexcept { return *transport_; }

 private:
  struct Message {
    double loss, residual, stop;
  };
  std::unique_ptr<Transport> transport_;
  Message mine_{};
  bool posted_ = false;
};

}  // namespace laconic::app::training
