#include "laconic/optim/schedule.h"

#include <algorithm>
#include <cmath>

namespace laconic {

void Schedule::done(Counters& c, const Step& step, FunctionRef<double()>) const {
  c.t = static_cast<double>(step.t);
  c.variance_updates = static_cast<double>(step.variance_updates);
  if (step.lr > c.lr_peak) {
    c.lr_peak = step.lr;
    c.last_rise = c.t;
  }
  if (step.kind == Step::Kind::kDense || step.kind == Step::Kind::kCoded) c.last_sync = c.t;
}

namespace {

Step next(const Counters& c, double lr) {
  return {.t = static_cast<std::int64_t>(c.t) + 1,
          .lr = lr,
          .variance_updates = static_cast<std::int64_t>(c.variance_updates)};
}

// SGDM and AdamW: the exact mean on every step. Birder: the coded one.
class EveryStep final : public Schedule {
 public:
  explicit EveryStep(Step::Kind kind) : kind_(kind) {}
  Step plan(const Counters& c, double lr) const override {
    Step step = next(c, lr);
    step.kind = kind_;
    step.variance_updates = step.t;
    return step;
  }

 private:
  Step::Kind kind_;
};

// 1-bit Adam: dense until the freeze.
class FreezeOnce final : public Schedule {
 public:
  FreezeOnce(std::int64_t freeze_step, double beta2, bool bias_correction)
      : freeze_step_(freeze_step),
        beta2_(beta2),
        bias_correction_(bias_correction),
        every_(std::llround(1 / (1 - beta2))) {}

  Step plan(const Counters& c, double lr) const override {
    Step step = next(c, lr);
    const auto frozen_at = freeze_step_ == kAuto ? static_cast<std::int64_t>(c.frozen_at) : freeze_step_;
    step.variance = frozen_at == 0 || step.t <= frozen_at;
    step.freezes = !step.variance && step.t == frozen_at + 1;
    step.kind = step.variance ? Step::Kind::kDense : Step::Kind::kCoded;
    if (step.variance) ++step.variance_updates;
    return step;
  }

  void done(Counters& c, const Step& step, FunctionRef<double()> variance_norm) const override {
    Schedule::done(c, step, variance_norm);
    if (freeze_step_ != kAuto || c.frozen_at != 0 || step.t % every_ != 0) return;
    const double correction =
        bias_correction_ ? 1 - std::pow(beta2_, static_cast<double>(step.variance_updates)) : 1;
    const double norm = variance_norm() / correction;
    const double ratio = c.norm_before > 0 ? norm / c.norm_before : 0;
    const bool settled = ratio >= 0.96 && ratio <= 1 / 0.96;
    const bool risen = step.lr < c.lr_peak || c.t - c.last_rise >= static_cast<double>(every_);
    if (settled && risen) c.frozen_at = c.t;
    c.norm_before = norm;
  }

 private:
  std::int64_t freeze_step_;
  double beta2_;
  bool bias_correction_;
  std::int64_t every_;
};

// 0/1 Adam: variance steps by T_v, syncs by T_u, local steps between.
class ZeroOne final : public Schedule {
 public:
  explicit ZeroOne(const OptimizerConfig& config)
      : variance_(config.variance_kappa, config.variance_freeze_step),
        intervals_(config.variance_freeze_step, config.double_every, config.max_interval),
        total_(config.total_steps) {}

  Step plan(const Counters& c, double lr) const override {
    Step step = next(c, lr);
    step.interval = intervals_.at(step.t, lr, std::max(c.lr_peak, lr));
    const bool due = variance_.contains(step.t) || c.variance_due != 0;
    step.variance = due && c.open == 0;
    step.freezes = step.t > variance_.freeze() && !due && c.frozen_at == 0;
    if (step.variance) {
      step.kind = Step::Kind::kDense;
      ++step.variance_updates;
    } else if (lr == 0) {
      step.kind = Step::Kind::kNothing;
    } else {
      const bool sync = due || step.t == total_ ||
                        static_cast<double>(step.t) - c.last_sync >= static_cast<double>(step.interval);
      step.kind = sync ? Step::Kind::kCoded : Step::Kind::kSilent;
    }
    return step;
  }

  void done(Counters& c, const Step& step, FunctionRef<double()> variance_norm) const override {
    Schedule::done(c, step, variance_norm);
    const bool due = variance_.contains(step.t) || c.variance_due != 0;
    c.variance_due = due && !step.variance;
    c.open = step.kind == Step::Kind::kSilent ? 1 : step.kind == Step::Kind::kNothing ? c.open : 0;
    if (step.freezes) c.frozen_at = c.t;
  }

 private:
  VarianceSteps variance_;
  Intervals intervals_;
  std::int64_t total_;
};

}  // namespace

std::unique_ptr<Schedule> make_schedule(const OptimizerConfig& config) {
  switch (config.algorithm) {
    case Algorithm::kOneBitAdam:
      return std::make_unique<FreezeOnce>(config.freeze_step, config.beta2, config.bias_correction);
    case Algorithm::kZeroOneAdam: return std::make_unique<ZeroOne>(config);
    case Algorithm::kBirder: return std::make_unique<EveryStep>(Step::Kind::kCoded);
    default: return std::make_unique<EveryStep>(Step::Kind::kDense);
  }
}

}  // namespace laconic
