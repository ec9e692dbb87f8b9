#include "laconic/optim/one_bit_rule.h"

#include <algorithm>
#include <cmath>

#include "laconic/optim/scalars.h"

namespace laconic::inline optim {

std::vector<State> OneBitRule::state() {
  auto all = coded_->state();
  for (State& one : dense_state()) all.push_back(std::move(one));
  all.push_back({"m", m_.span(), Spread::kSame});
  all.push_back({"v", v_.span(), Spread::kSame});
  return all;
}

void OneBitRule::redistribute(const Whole& whole, const Step&) {
  // m += e/beta1, e the mean worker residual and the server residuals.
  const Buffer<float> e = residuals_in(whole), m(m_.size());
  fetch(m_.span(), m.span());
  for (std::size_t k = 0; k < m.size(); ++k)
    m[k] += e[k] / static_cast<float>(bucket_.config->beta1);
  store(m.span(), m_.span());
  for (const State& state : coded_->state()) clear(state);
  redistribute_dense(whole);
}

void OneBitRule::coded(const Step& step) {
  begin_exchange(*coded_, Momentum{scalars(step), bucket_.g.data(), m_.data(), exact_bad()},
                 coded_update(step), step,
                 floors_.any_dead_block() ? v_.span() : std::span<float>{});
}

namespace {

// Exact means until the freeze.
class FreezeOnce final : public Schedule {
 public:
  FreezeOnce(std::int64_t freeze_step, double beta2, bool bias_correction)
      : freeze_step_(freeze_step),
        beta2_(beta2),
        bias_correction_(bias_correction),
        every_(std::llround(1 / (1 - beta2))) {}

  Step plan(Counters c, double lr) const override {
    Step step = next(c, lr);
    const auto frozen_at =
        freeze_step_ == kAuto ? static_cast<std::int64_t>(c.frozen_at()) : freeze_step_;
    step.variance = frozen_at == 0 || step.t <= frozen_at;
    step.freezes = !step.variance && step.t == frozen_at + 1;
    step.kind = step.variance ? Step::Kind::kDense : Step::Kind::kCoded;
    if (step.variance) ++step.variance_updates;
    return step;
  }

  void done(Counters& c, const Step& step, FunctionRef<double()> variance_norm) const override {
    Schedule::done(c, step, variance_norm);
    if (freeze_step_ != kAuto || c.frozen_at() != 0 || step.t % every_ != 0) return;
    const double correction = bias_correction_ ? 1 - power(beta2_, step.variance_updates) : 1;
    const double norm = variance_norm() / correction;
    const double ratio = c.norm_before() > 0 ? norm / c.norm_before() : 0;
    const bool settled = ratio >= 0.96 && ratio <= 1 / 0.96;
    const bool risen =
        step.lr < c.lr_peak() || c.t() - c.last_rise() >= static_cast<double>(every_);
    if (settled && risen) c.frozen_at() = c.t();
    c.norm_before() = norm;
  }

 private:
  std::int64_t freeze_step_;
  double beta2_;
  bool bias_correction_;
  std::int64_t every_;
};

}  // namespace

std::vector<Option> freeze_options() {
  using C = OptimizerConfig;
  std::vector<Option> options = one_bit_options();
  options.push_back(
      option<&C::freeze_step>("freeze_step",
                              "a whole number >= 1, auto, or unset with total_steps (a freeze step "
                              "below 1 would leave no variance to divide by)",
                              from_one,
                              "last step with exact means, after which the variance stays; auto: "
                              "when it has settled; unset: 20 % of total_steps",
                              kUnsetOrAuto)
          .in("steps"));
  return options;
}

void complete_freeze(OptimizerConfig& config) {
  fill_from_length(config.freeze_step, config, "freeze_step", percent_of_run(config, 20));
}

std::unique_ptr<Schedule> freeze_once(const OptimizerConfig& config) {
  return std::make_unique<FreezeOnce>(config.freeze_step, config.beta2, config.bias_correction);
}

Rounds rounds_with_freeze(const OptimizerConfig& config, std::int64_t steps) {
  return freeze_rounds(steps, config.freeze_step);
}

}  // namespace laconic::inline optim
