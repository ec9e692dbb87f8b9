#pragma once

#include <map>

#include "laconic/optim/adam_rule.h"
#include "laconic/optim/option.h"

namespace laconic::inline optim {

// Bounds of the trust ratio.
std::vector<Option> with_trust_options(std::vector<Option> own);
// Error(kInvalidArgument) where they contradict each other.
void check_trust(const OptimizerConfig& config);
// Learning rates by the command's models. Not tuned: a tensor moves by 1 to 3 % of its norm per
// step, and by 0.2 % in the larger BERT models.
std::map<std::string, double> trust_rates();

// An Adam step whose length the tensor decides: x -= lr*trust*u, u = (m*(1/(1-beta1^t)))/D + wd*x,
// trust = ‖x‖/‖u‖. Base, an AdamRule, exchanges and updates the moments. In blocks that a step
// leaves out m, v and x stay; they take part in both norms as they are.
template <class Base>
class TrustRule : public Base {
 public:
  explicit TrustRule(const Bucket& bucket)
      : Base(bucket), left_(*bucket.device, (bucket.x.size() + 63) / 64) {}

  bool by_tensor() const override { return true; }
  TensorPart part_of(const Step& step, std::int64_t rested, std::size_t begin,
                     std::size_t count) override {
    const Step own = step_of(step, rested);
    return {.begin = begin,
            .count = count,
            .step = {.scale = static_cast<float>(this->momentum_correction(own)),
                     .correction = static_cast<float>(this->variance_correction(own)),
                     .epsilon = static_cast<float>(this->bucket_.config->epsilon),
                     .weight_decay = static_cast<float>(this->bucket_.now->weight_decay)},
            .m = this->m_.data(),
            .v = this->v_.data(),
            .x = this->bucket_.x.data(),
            .left = left_.data(),
            .floors = floors_of(step)};
  }
  void moved() override {
    this->bucket_.device->settle();
    if (this->bad_blocks() == bad_before_) return;
    this->bucket_.device->clear(left_.data(), left_.size());
    bad_before_ = this->bad_blocks();
  }

 protected:
  // Both moments take the mean of the gradients; bad blocks are left.
  MomentsUpdate moments_update(const Step& step) {
    return {this->scalars(step), this->m_.data(), this->v_.data(), left_.data(), this->bad()};
  }
  // The step as a tensor counts it that rested so often.
  virtual Step step_of(const Step& step, std::int64_t) const { return step; }
  // Empty: none.
  virtual FloorTable floors_of(const Step&) const { return {}; }

 private:
  Memory<std::uint8_t> left_;  // by this step: a byte per word of 64
  std::uint64_t bad_before_ = 0;
};

}  // namespace laconic::inline optim
