#include "laconic/collective/conveyor.h"

#include "laconic/collective/pipeline.h"

namespace laconic::inline collective {
namespace {

// Ended exchanges that keep their messages: waiting until the last one's are read by everyone would
// hold the next one up.
constexpr std::size_t kUnread = 1;

}  // namespace

Conveyor::Conveyor(const Nodes& nodes, std::size_t lag)
    : timeline_(nodes.timeline),
      inside_(nodes.inside.get(), nodes.timeline, true),
      between_(&nodes.between(), nodes.timeline),
      phases_(nodes.per_node > 1 ? 5 : 3),
      lag_(lag) {
  static_assert((5 - 1) * Outbox::kLag < kPlaces);
  ended_.reserve(kPlaces);
}

std::size_t Conveyor::lag_for(std::size_t longest_exchange, int useful_slices) {
  const std::size_t slice = slice_elements(longest_exchange, longest_exchange, useful_slices);
  return longest_exchange > slice ? Outbox::kLag : 1;
}

void Conveyor::carry(Pipeline& exchange) {
  release(kUnread);
  const int bucket = timeline_ ? timeline_->bucket() : -1;
  for (std::size_t slice = 0; slice < exchange.slices(); ++slice) push({&exchange, slice, bucket});
  if (!lingers_) drain();
}

void Conveyor::drain() {
  if (pushed_ > 0)
    for (std::size_t i = 0; i < (phases_ - 1) * lag_; ++i) push({});
  pushed_ = 0;
  release(0);
  between_.finish();
  inside_.finish();
}

// One more slice; each phase works on an older one than the phase before it.
void Conveyor::push(const Item& item) {
  const int bucket = timeline_ ? timeline_->bucket() : -1;
  items_[pushed_ % kPlaces] = item;
  for (std::size_t phase = 0; phase < phases_ && phase * lag_ <= pushed_; ++phase) {
    const Item& at = items_[(pushed_ - phase * lag_) % kPlaces];
    if (at.exchange == nullptr) continue;
    if (timeline_) timeline_->set_bucket(at.bucket);
    at.exchange->work(phase, at.slice);
    if (phase + 1 == phases_ && at.slice + 1 == at.exchange->slices())
      ended_.push_back(at.exchange);
  }
  if (timeline_) timeline_->set_bucket(bucket);
  ++pushed_;
}

void Conveyor::release(std::size_t most) {
  while (ended_.size() > most) {
    ended_.front()->rest();
    ended_.erase(ended_.begin());
  }
}

}  // namespace laconic::inline collective
