#pragma once

#include "laconic/optim/adam_rule.h"
#include "laconic/optim/schedule.h"

namespace laconic::inline optim {

// Means of gradients in dense rounds until the freeze; from then on v stays, each rank adds its own gradient
// to m, and the one-bit mean of these momenta is the next m. What a mean does to the weights is the
// method's own.
class OneBitRule : public DenseRoundsRule {
 public:
  explicit OneBitRule(const Bucket& bucket)
      : DenseRoundsRule(bucket),
        coded_(make_coded("sign")),
        floors_(*bucket.device, *coded_, v_.span(), bucket.config->variance_floor,
                bucket.config->scale_block == 0, bucket.group.compress) {
    means_.push_back(coded_.get());
  }

  void freeze() override {
    DenseRoundsRule::freeze();
    floors_.freeze();
  }
  void step(const Step& step) override {
    step.variance ? begin_dense_round(dense_update(step), step) : coded(step);
  }

  std::vector<State> state() override;
  void restored(bool) override { floors_.update(); }
  double residual_ratio() const override { return coded_->residual_ratio(); }
  std::string describe() const override { return described(*coded_); }
  void redistribute(const Whole& whole, const Step&) override;

 protected:
  // What the mean of the gradients does, and that of the momenta. What it points at lives until the
  // next call.
  virtual Sink dense_update(const Step& step) = 0;
  virtual Sink coded_update(const Step& step) = 0;
  // Of coded steps.
  FloorTable floors() const noexcept { return floors_.table(); }

 private:
  void coded(const Step& step);

  std::unique_ptr<Mean> coded_;
  Floors floors_;
};

// one_bit_options() and freeze_step.
std::vector<Option> freeze_options();
// 20 % of the run where it is unset.
void complete_freeze(OptimizerConfig& config);
// Exact means until the freeze.
std::unique_ptr<Schedule> freeze_once(const OptimizerConfig& config);
Rounds rounds_with_freeze(const OptimizerConfig& config, std::int64_t steps);

}  // namespace laconic::inline optim
