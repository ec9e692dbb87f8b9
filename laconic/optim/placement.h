#pragma once

#include "laconic/core/buffer.h"
#include "laconic/device/memory.h"
#include "laconic/optim/optimizer.h"

namespace laconic::inline optim {

// Weights and gradient where a device can work on them: the model's own memory where that is the
// device's, else copies, which are brought up to date by the calls below. They also order what the
// caller enqueued on a queue of its own and what the device does; on the host they do nothing.
class Placement {
 public:
  // Both outlive the object.
  Placement(const Model& model, Device& device);

  std::span<float> weights() const noexcept { return weights_; }
  std::span<float> gradient() const noexcept { return gradient_; }

  // Before the device reads what the caller may have written, and after the device wrote.
  void take_weights();
  void give_weights();
  // As take_weights(), where a bucket's gradient is waited for before the weights are used.
  void bring_weights();
  // The caller's part, by the thread that drives the step, and the device's.
  void take_gradient(std::size_t bucket, std::size_t begin, std::size_t count);
  void wait_for_gradient(std::size_t bucket) { device_.wait(1 + bucket); }
  void give_gradient();

  // The model's weights in memory of the host, as they are now.
  std::span<const float> on_host();
  // The same for others to write to. Where it is not the model's own memory, what they wrote counts
  // after take_up().
  std::span<float> show();
  void take_up();
  // What the device has as `from`, in memory of the host.
  void fetch(std::span<const float> from, std::span<float> to_host) const;
  // The same where `from` may be the model's weights, from element `begin` on: then the caller's.
  void fetch_weights(std::span<const float> from, std::size_t begin,
                     std::span<float> to_host) const;

 private:
  const Model& model_;
  Device& device_;
  const bool copies_;
  Memory<float> own_weights_, own_gradient_;
  std::span<float> weights_, gradient_;
  Buffer<float> host_;  // of on_host(), where the model's memory is the device's
  bool shown_ = false;  // since the last take_up()
};

}  // namespace laconic::inline optim
