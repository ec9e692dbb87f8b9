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

std::optional<Control::Said> Control::take() {
  if (!posted_) return {};
  posted_ = false;
  const Blocks blocks = transport_->arrive();
  Said said;
  for (int r = 0; r < transport_->size(); ++r) {
    Message message{};
    std::memcpy(&message, blocks[r].data(), sizeof message);
    said.loss += message.loss / transport_->size();
    said.residual = std::max(said.residual, message.residual);
    said.stop = std::max(said.stop, static_cast<int>(message.stop));
  }
  transport_->retire();
  return said;
}

}  // namespace laconic::app::training
