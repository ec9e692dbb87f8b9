#include <algorithm>

#include "laconic/optim/adam_rule.h"
#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/exact_rule.h"
#include "laconic/optim/schedule.h"

namespace laconic {
namespace {

using C = OptimizerConfig;

class AdamW final : public ExactRule<AdamRule> {
 public:
  using ExactRule::ExactRule;
  std::vector<State> state() override {
    return {{"m", m_.span(), Spread::kSame}, {"v", v_.span(), Spread::kSame}};
  }

 private:
  // A range that rested has taken fewer steps, so its bias corrections lag behind.
  void begin(const Step& step) override {
    lags_ = bucket_.rest ? bucket_.rest->lags(bucket_.index) : std::span<const Lag>{};
    scalars_.assign(1, scalars(step));
    if (lags_.empty()) return;
    scalars_.clear();
    for (const Lag& lag : lags_) {
      Step own = step;
      own.t -= lag.steps;
      own.variance_updates -= lag.steps;
      scalars_.push_back(scalars(own));
    }
  }
  void update(std::size_t at, std::span<const float> mean) override {
    if (lags_.empty()) return adam_tile(scalars_.front(), at, mean);
    for_each_finite(at, mean, [&](std::size_t begin, std::span<const float> part) {
      for (std::size_t i = 0; i < lags_.size(); ++i) {
        const std::size_t from = std::max(begin, lags_[i].begin);
        const std::size_t to = std::min(begin + part.size(), lags_[i].begin + lags_[i].count);
        if (from < to)
          kernels::adamw(scalars_[i], part.data() + (from - begin), m_.data() + from,
                         v_.data() + from, bucket_.x.data() + from, to - from);
      }
    });
  }
  std::span<const Lag> lags_;
  std::vector<kernels::AdamStep> scalars_;
};

}  // namespace

Method adamw_method() {
  return {
      .name = "adamw",
      .title = "AdamW",
      .summary =
          "AdamW on the exact mean of the gradients, as torch.optim.AdamW under "
          "DistributedDataParallel",
      .paper = "Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019",
      .exchanges = "gradient, exactly, every step",
      .codec = "fp32",
      .python = "AdamW",
      .options = adam_options(),
      .defaults = {{"weight_decay", "1e-2"}},
      .exact = true,
      .cost = {.state = 8, .exact = {0, 1.23e-9}, .coded = {}},
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<AdamW>(bucket);
      },
      .make_schedule = [](const C&) { return every_step(Step::Kind::kDense); },
      .rounds = [](const C&, std::int64_t steps) { return Rounds{.steps = steps, .dense = steps}; },
  };
}

}  // namespace laconic
