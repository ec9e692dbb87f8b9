#include "laconic/optim/adam_rule.h"
#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/gradient_rule.h"

namespace laconic::inline optim {
namespace {

class AdamW final : public GradientRule<AdamRule> {
 public:
  using GradientRule::GradientRule;

 private:
  std::vector<State> moments() override {
    return {{"m", m_.span(), Spread::kSame}, {"v", v_.span(), Spread::kSame}};
  }
  // A range that rested has taken fewer steps, so its bias corrections lag behind.
  Sink update(const Step& step) override {
    const AdamWUpdate all = adam_update(step);
    const auto lags = bucket_.rest ? bucket_.rest->lags(bucket_.index) : std::span<const Lag>{};
    if (lags.empty()) return all;
    parts_.clear();
    for (const Lag& lag : lags) {
      Step own = step;
      own.t -= lag.steps;
      own.variance_updates -= lag.steps;
      parts_.push_back({lag.begin, lag.count, scalars(own)});
    }
    return AdamWUpdate{parts_, all.m, all.v, all.x, all.bad};
  }
};

}  // namespace

Method adamw_method() {
  return {
      .name = "adamw",
      .title = "AdamW",
      .summary =
          "AdamW on the mean of the gradients, as torch.optim.AdamW under DistributedDataParallel; "
          "the mean is exact, or has eight or four bits per parameter",
      .paper = "Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019",
      .exchanges = "gradient, every step, exactly or with the codec",
      .codec = "fp32",
      .python = "AdamW",
      .options = with_gradient_options(adam_options()),
      .defaults = {{"weight_decay", "1e-2"}},
      .exact = true,
      .coded_with = gradient_codec,
      .choices = gradient_choices,
      .inner = true,
      .cost = {.state = 8, .exact = {0, 1.23e-9}, .coded = {}},
      .sweeps = {.exact = "adam"},
      .complete = check_gradient_codec,
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<AdamW>(bucket);
      },
      .make_schedule = gradient_schedule,
      .rounds = gradient_rounds,
  };
}

}  // namespace laconic::inline optim
