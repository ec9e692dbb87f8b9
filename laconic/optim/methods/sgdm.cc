#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/gradient_rule.h"

namespace laconic::inline optim {
namespace {

using C = OptimizerConfig;

class Sgdm final : public GradientRule<Rule> {
 public:
  explicit Sgdm(const Bucket& bucket) : GradientRule(bucket), m_(*bucket.device, bucket.x.size()) {}

 private:
  std::vector<State> moments() override { return {{"m", m_.span(), Spread::kSame}}; }
  Sink update(const Step&) override {
    const kernels::SgdmStep step{static_cast<float>(bucket_.config->momentum),
                                 static_cast<float>(lr()), static_cast<float>(decay())};
    return SgdmUpdate{step, m_.data(), bucket_.x.data(), bad()};
  }
  Memory<float> m_;
};

}  // namespace

Method sgdm_method() {
  return {
      .name = "sgdm",
      .title = "SGD with momentum",
      .summary =
          "SGD with momentum on the mean of the gradients, exact or with eight or four bits per "
          "parameter; weight decay is decoupled, torch.optim.SGD's is not",
      .paper =
          "Sutskever et al., On the importance of initialization and momentum in deep "
          "learning, ICML 2013",
      .exchanges = "gradient, every step, exactly or with the codec",
      .codec = "fp32",
      .python = "SGD",
      .options = with_gradient_options(
          {option<&C::momentum>("momentum", kBelowOne, below_one, "decay of the momentum")}),
      .defaults = {{"momentum", "0.0"}},
      .rates = {{"resnet8", 0.03},
                {"resnet20", 0.03},
                {"resnet18", 0.03},
                {"resnet50", 0.03},
                {"gpt2-mini", 0.1},
                {"gpt2", 0.05},
                {"bert-mini", 0.1},
                {"bert-base", 0.05},
                {"bert-large", 0.05}},
      .exact = true,
      .coded_with = gradient_codec,
      .choices = gradient_choices,
      .inner = true,
      .cost = {.state = 4, .exact = {0, 0.82e-9}, .coded = {}},
      .sweeps = {.exact = "momentum-sgd"},
      .complete = check_gradient_codec,
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<Sgdm>(bucket);
      },
      .make_schedule = gradient_schedule,
      .rounds = gradient_rounds,
  };
}

}  // namespace laconic::inline optim
