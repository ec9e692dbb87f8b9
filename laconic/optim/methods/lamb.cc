#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/gradient_rule.h"
#include "laconic/optim/trust_rule.h"

namespace laconic::inline optim {
namespace {

class Lamb final : public TrustRule<GradientRule<AdamRule>> {
 public:
  using TrustRule::TrustRule;

 private:
  std::vector<State> moments() override {
    return {{"m", m_.span(), Spread::kSame}, {"v", v_.span(), Spread::kSame}};
  }
  Sink update(const Step& step) override { return moments_update(step); }
  // A tensor that rested has taken fewer steps, so its bias corrections lag behind.
  Step step_of(const Step& step, std::int64_t rested) const override {
    Step own = step;
    own.t -= rested;
    own.variance_updates -= rested;
    return own;
  }
};

}  // namespace

Method lamb_method() {
  return {
      .name = "lamb",
      .title = "LAMB",
      .summary =
          "Adam for large batches: each tensor moves in proportion to its own norm; the mean of "
          "the gradients is exact, or has eight or four bits per parameter",
      .paper =
          "You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes, "
          "ICLR 2020",
      .exchanges = "gradient, every step, exactly or with the codec",
      .codec = "fp32",
      .python = "LAMB",
      .options = with_gradient_options(with_trust_options(adam_options())),
      .aliases = {{"min_coeff", "min_trust"}, {"max_coeff", "max_trust"}},
      .rates = trust_rates(),
      .exact = true,
      .coded_with = gradient_codec,
      .choices = gradient_choices,
      // AdamW's, in proportion to the bytes moved.
      .cost = {.state = 8, .exact = {0, 2.1e-9}, .coded = {}},
      .sweeps = {.exact = "adam-by-tensor"},
      .complete =
          [](OptimizerConfig& config) {
            check_trust(config);
            check_gradient_codec(config);
          },
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<Lamb>(bucket);
      },
      .make_schedule = gradient_schedule,
      .rounds = gradient_rounds,
  };
}

}  // namespace laconic::inline optim
