#pragma once

#include <memory>
#include <optional>

#include "laconic/transport/transport.h"

namespace laconic::app::training {

// What ranks send each other about every step beside gradients: the loss, the residual ratio, and
// whether to stop. It travels while the next step is computed, so no rank waits for it. It takes 24
// bytes per rank, which the optimizer's statistics do not count. One thread at a time, between
// steps.
class Control {
 public:
  struct Gathered {
    double loss = 0;      // the mean over ranks
    double residual = 0;  // the largest
    int stop = 0;         // the largest; 0: no rank asks for it
  };

  // Collective.
  explicit Control(Transport& engine);
  void post(double loss, double residual, int stop);
  // What everyone posted last; nothing if that was taken already.
  std::optional<Gathered> take();
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
