#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/rule.h"
#include "laconic/optim/schedule.h"

namespace laconic::inline optim {
namespace {

using C = OptimizerConfig;

// m and b, decaying means of g and |g|, never exchanged; u = m/b. Each rank sends a random sign with
// mean u, and r, the consensus of the signs, moves the weights.
class Birder final : public Rule {
 public:
  explicit Birder(const Bucket& bucket)
      : Rule(bucket),
        m_(*bucket.device, bucket.x.size()),
        b_(*bucket.device, bucket.x.size()),
        mean_(make_coded("random-sign")) {}

  void step(const Step& step) override {
    const double beta = bucket_.config->beta;
    const kernels::BirderMoments moments{static_cast<float>(beta), static_cast<float>(1 - beta)};
    begin_exchange(
        *mean_, SignMoments{moments, bucket_.g.data(), m_.data(), b_.data(), bad()},
        SignUpdate{static_cast<float>(lr()), static_cast<float>(decay()), bucket_.x.data()}, step);
  }

  std::vector<State> state() override {
    return {{"m", m_.span(), Spread::kMean}, {"b", b_.span(), Spread::kMean}};
  }
  std::string describe() const override { return mean_->describe(); }

  void redistribute(const Whole& whole, const Step&) override {
    store(whole.at("m"), m_.span());
    store(whole.at("b"), b_.span());
  }

 private:
  Memory<float> m_, b_;
  std::unique_ptr<Mean> mean_;
};

}  // namespace

Method birder_method() {
  return {
      .name = "birder",
      .title = "Birder",
      .summary =
          "random signs from the first step on, without residuals or warm-up; about 2 to 3 "
          "times AdamW's learning rate",
      .paper =
          "Peng et al., Birder: Communication-Efficient 1-bit Adaptive Optimizer for "
          "Practical Distributed DNN Training, NeurIPS 2023",
      .exchanges = "random sign of the normalized momentum, every step",
      .codec = "random-sign",
      .python = "Birder",
      .options = {option<&C::beta>("beta", kBelowOne, below_one, "decay of both moments"),
                  option<&C::exchange>("exchange", "two-round, single-round, count or auto",
                                       word_only,
                                       "two-round: the paper's; single-round: half the bytes; "
                                       "count: less noise; auto: exact instead of two rounds where "
                                       "that is measured to be faster",
                                       kForms)},
      .defaults = {{"lr", ""}},
      .rates = {{"resnet18", 2e-3}, {"resnet50", 2e-3}},
      .shown = true,
      .cost = {.state = 8, .exact = {0, 1.23e-9}, .coded = {0.96e-9, 0.40e-9}},
      .sweeps = {.exact = "adam", .before = "draw-moments", .after = "sign-step"},
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<Birder>(bucket);
      },
      .make_schedule = [](const C&) { return every_step(Step::Kind::kCoded); },
      .rounds = [](const C&, std::int64_t steps) { return Rounds{.steps = steps, .coded = steps}; },
  };
}

}  // namespace laconic::inline optim
