#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/exact_rule.h"
#include "laconic/optim/schedule.h"

namespace laconic {
namespace {

using C = OptimizerConfig;

class Sgdm final : public ExactRule<Rule> {
 public:
  explicit Sgdm(const Bucket& bucket) : ExactRule(bucket), m_(bucket.x.size()) {}
  std::vector<State> state() override { return {{"m", m_.span(), Spread::kSame}}; }

 private:
  void begin(const Step&) override {
    scalars_ = {static_cast<float>(bucket_.config->momentum), static_cast<float>(lr()),
                static_cast<float>(decay())};
  }
  void update(std::size_t at, std::span<const float> mean) override {
    for_each_finite(at, mean, [&](std::size_t from, std::span<const float> part) {
      kernels::sgdm(scalars_, part.data(), m_.data() + from, bucket_.x.data() + from, part.size());
    });
  }
  Buffer<float> m_;
  kernels::SgdmStep scalars_{};
};

}  // namespace

Method sgdm_method() {
  return {
      .name = "sgdm",
      .title = "SGD with momentum",
      .summary =
          "SGD with momentum on the exact mean of the gradients; weight decay is decoupled, "
          "torch.optim.SGD's is not",
      .paper =
          "Sutskever et al., On the importance of initialization and momentum in deep "
          "learning, ICML 2013",
      .exchanges = "gradient, exactly, every step",
      .codec = "fp32",
      .python = "SGD",
      .options = {option<&C::momentum>("momentum", kBelowOne, below_one, "decay of the momentum")},
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
      .cost = {.state = 4, .exact = {0, 0.82e-9}, .coded = {}},
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<Sgdm>(bucket);
      },
      .make_schedule = [](const C&) { return every_step(Step::Kind::kDense); },
      .rounds = [](const C&, std::int64_t steps) { return Rounds{.steps = steps, .dense = steps}; },
  };
}

}  // namespace laconic
