#include "laconic/optim/placement.h"

#include <cstring>
#include <utility>

namespace laconic::inline optim {
namespace {

constexpr std::size_t kWeights = 0;  // of marks; those of buckets follow

}  // namespace

Placement::Placement(const Model& model, Device& device)
    : model_(model),
      device_(device),
      copies_(!device.is_host() && !model.on_device),
      own_weights_(device, copies_ ? model.weights.size() : 0),
      own_gradient_(device, copies_ ? model.gradient.size() : 0),
      weights_(copies_ ? own_weights_.span() : model.weights),
      gradient_(copies_ ? own_gradient_.span() : model.gradient) {
  device_.release();
}

void Placement::bring_weights() {
  if (copies_) device_.bring(model_.weights.data(), weights_.data(), weights_.size_bytes());
}

void Placement::take_weights() {
  bring_weights();
  device_.mark(kWeights);
  device_.wait(kWeights);
}

void Placement::give_weights() {
  device_.release();
  if (copies_) device_.bring_back(weights_.data(), model_.weights.data(), weights_.size_bytes());
}

void Placement::take_gradient(std::size_t bucket, std::size_t begin, std::size_t count) {
  if (copies_ && count != 0)
    device_.bring(model_.gradient.data() + begin, gradient_.data() + begin, 4 * count);
  device_.mark(1 + bucket);
}

void Placement::give_gradient() {
  device_.release();
  if (copies_) device_.bring_back(gradient_.data(), model_.gradient.data(), gradient_.size_bytes());
}

std::span<const float> Placement::on_host() {
  const bool shown = shown_;
  const std::span<const float> all = show();
  shown_ = shown;
  return all;
}

std::span<float> Placement::show() {
  if (device_.is_host() || copies_) return model_.weights;
  if (host_.empty()) host_ = Buffer<float>(weights_.size());
  device_.mark(kWeights);
  device_.wait(kWeights);
  fetch(weights_, host_.span());
  shown_ = true;
  return host_.span();
}

void Placement::take_up() {
  if (!std::exchange(shown_, false)) return;
  copy_to<float>(device_, host_.span(), weights_);
  device_.release();
}

void Placement::fetch(std::span<const float> from, std::span<float> to_host) const {
  copy_from<float>(device_, from, to_host);
}

void Placement::fetch_weights(std::span<const float> from, std::size_t begin,
                              std::span<float> to_host) const {
  const bool callers = from.data() == weights_.data() + begin;
  if (callers && !copies_) {  // what the caller enqueued comes first
    device_.mark(kWeights);
    device_.wait(kWeights);
  }
  if (!callers || !copies_) return fetch(from, to_host);
  if (!from.empty()) std::memcpy(to_host.data(), model_.weights.data() + begin, from.size_bytes());
}

}  // namespace laconic::inline optim
