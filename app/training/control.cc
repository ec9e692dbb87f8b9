#include "app/training/control.h"

#include <algorithm>
#include <cstring>

namespace laconic::app::training {

Control::Control(Transport& engine) : transport_(engine.split(0)) {}

void Control::post(double loss, double residual, int stop) {
  mine_ = {loss, residual, static_cast<double>(stop)};
  transport_->post({.kind = Kind::kAllGather}, std::as_bytes(std::span(&mine_, 1)));
  posted_ = true;
}

std::optional<Control::Gathered> Control::take() {
  if (!posted_) return {};
  posted_ = false;
  const Blocks blocks = transport_->arrive();
  Gathered all;
  for (int r = 0; r < transport_->size(); ++r) {
    Message message{};
    std::memcpy(&message, blocks[r].data(), sizeof message);
    all.loss += message.loss / transport_->size();
    all.residual = std::max(all.residual, message.residual);
    all.stop = std::max(all.stop, static_cast<int>(message.stop));
  }
  transport_->retire();
  return all;
}

}  // namespace laconic::app::training
