#include <algorithm>
#include <cmath>

#include "laconic/optim/adam_rule.h"
#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/gradient_rule.h"
#include "laconic/optim/schedule.h"

namespace laconic::inline optim {
namespace {

using C = OptimizerConfig;

// m, v the moments, ḡ the mean of the gradients. Until the freeze an Adam step on ḡ; from
// then on v stays, each rank adds its own gradient to m, and the one-bit mean of these momenta is
// the next m.
class OneBitAdam final : public OneBitRule {
 public:
  explicit OneBitAdam(const Bucket& bucket)
      : OneBitRule(bucket),
        coded_(make_coded("sign")),
        floors_(*coded_, v_.span(), bucket.config->variance_floor, bucket.config->scale_block == 0,
                bucket.group.compress) {
    means_.push_back(coded_.get());
  }

  void freeze() override {
    OneBitRule::freeze();
    floors_.freeze();
  }
  void step(const Step& step) override {
    step.variance ? dense_round(adam_update(step), step) : coded(step);
  }

  std::vector<State> state() override {
    auto all = coded_->state();
    for (State& one : dense_state()) all.push_back(std::move(one));
    all.push_back({"m", m_.span(), Spread::kSame});
    all.push_back({"v", v_.span(), Spread::kSame});
    return all;
  }
  void restored(bool) override { floors_.update(); }
  double residual_ratio() const override { return coded_->residual_ratio(); }
  std::string describe() const override { return described(*coded_); }

  void redistribute(const Whole& whole, const Step&) override {
    // m += e/beta1, e the mean worker residual and the server residuals.
    const Buffer<float> e = residuals_in(whole);
    for (std::size_t k = 0; k < m_.size(); ++k)
      m_[k] += e[k] / static_cast<float>(bucket_.config->beta1);
    for (const State& state : coded_->state())
      std::fill(state.values.begin(), state.values.end(), 0.0F);
    redistribute_dense(whole);
  }

 private:
  void coded(const Step& step) {
    const kernels::AdamStep s = scalars(step);
    exchange(*coded_, Momentum{s, bucket_.g.data(), m_.data(), exact_bad()},
             MomentumApply{s, floors_.table(), m_.data(), v_.data(), bucket_.x.data()}, step,
             floors_.any_dead_block() ? v_.span() : std::span<float>{});
  }

  std::unique_ptr<Mean> coded_;
  Floors floors_;
};

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
    const double correction =
        bias_correction_ ? 1 - std::pow(beta2_, static_cast<double>(step.variance_updates)) : 1;
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

Method one_bit_adam_method() {
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
  return {
      .name = "one-bit-adam",
      .title = "1-bit Adam",
      .summary = "Adam on exact means until freeze_step, then one bit per parameter on every step",
      .paper =
          "Tang et al., 1-bit Adam: Communication Efficient Large-Scale Training with Adam's "
          "Convergence Speed, ICML 2021",
      .exchanges =
          "gradient, exactly or with dense_codec, until the freeze; then momentum, every step",
      .codec = "sign",
      .python = "OneBitAdam",
      .options = std::move(options),
      .dense_with = dense_round_codec,
      .cost = {.state = 8,
               .state_of_node = 4,
               .state_of_all = 4,
               .exact = {0, 1.23e-9},
               .coded = {0.60e-9, 0.80e-9}},
      .sweeps = {.exact = "adam", .before = "encode-momentum", .after = "decode-momentum"},
      .complete =
          [](C& config) {
            fill_from_length(config.freeze_step, config, "freeze_step", percent_of_run(config, 20));
          },
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<OneBitAdam>(bucket);
      },
      .make_schedule = [](const C& config) -> std::unique_ptr<Schedule> {
        return std::make_unique<FreezeOnce>(config.freeze_step, config.beta2,
                                            config.bias_correction);
      },
      .rounds = [](const C& config,
                   std::int64_t steps) { return freeze_rounds(steps, config.freeze_step); },
  };
}

}  // namespace laconic::inline optim
