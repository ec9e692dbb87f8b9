#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/gradient_rule.h"
#include "laconic/optim/lion_options.h"

namespace laconic::inline optim {
namespace {

// c = beta1*m + (1-beta1)*mean; m = beta2*m + (1-beta2)*mean; x = x*(1-lr*wd) - lr*sgn(c), sgn(0) =
// 0, so that what never had a gradient stays.
class Lion final : public GradientRule<Rule> {
 public:
  explicit Lion(const Bucket& bucket) : GradientRule(bucket), m_(*bucket.device, bucket.x.size()) {}

 private:
  std::vector<State> moments() override { return {{"m", m_.span(), Spread::kSame}}; }
  Sink update(const Step&) override {
    const kernels::LionStep step{lion_moments(*bucket_.config), static_cast<float>(lr()),
                                 static_cast<float>(decay())};
    return LionUpdate{step, m_.data(), bucket_.x.data(), bad()};
  }

  Memory<float> m_;
};

}  // namespace

Method lion_method() {
  return {
      .name = "lion",
      .title = "Lion",
      .summary =
          "sign of a mixture of momentum and mean gradient, exact or with eight or four bits per "
          "parameter; a third to a tenth of AdamW's learning rate",
      .paper = "Chen et al., Symbolic Discovery of Optimization Algorithms, NeurIPS 2023",
      .exchanges = "gradient, every step, exactly or with the codec",
      .codec = "fp32",
      .python = "Lion",
      .options = with_gradient_options(lion_options()),
      .defaults = {{"lr", "1e-4"}},
      .rates = lion_rates(),
      .exact = true,
      .coded_with = gradient_codec,
      .choices = gradient_choices,
      .inner = true,
      .cost = {.state = 4, .exact = {0, 0.82e-9}, .coded = {}},
      .sweeps = {.exact = "signed-momentum"},
      .complete = check_gradient_codec,
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<Lion>(bucket);
      },
      .make_schedule = gradient_schedule,
      .rounds = gradient_rounds,
  };
}

}  // namespace laconic::inline optim
