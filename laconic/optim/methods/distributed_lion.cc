#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/lion_options.h"
#include "laconic/optim/rule.h"
#include "laconic/optim/schedule.h"

namespace laconic::inline optim {
namespace {

using C = OptimizerConfig;

constexpr Word kVoteForms[] = {word("vote", RandomForm::kTwoRound),
                               word("count", RandomForm::kCount)};

constexpr const char* kMomentumCodec = "int8";

// m is each rank's own. Every rank votes with the sign of c = beta1*m + (1-beta1)*g, and the result
// of the vote moves the weights. On exact paths the mean of the signs does.
class DistributedLion final : public Rule {
 public:
  explicit DistributedLion(const Bucket& bucket)
      : Rule(bucket), m_(*bucket.device, bucket.x.size()), mean_(make_coded(std::string(kVote))) {
    if (bucket.config->momentum_sync_every > 0) sync_ = make_plain(kMomentumCodec);
  }

  void step(const Step& step) override {
    const LionVotes votes{lion_moments(*bucket_.config), kernels::Ties{step.t % 2 != 0},
                          bucket_.g.data(), m_.data(), bad()};
    begin_exchange(
        *mean_, votes,
        SignUpdate{static_cast<float>(lr()), static_cast<float>(decay()), bucket_.x.data()}, step);
    if (sync_ && step.t % bucket_.config->momentum_sync_every == 0)
      sync_->exchange(Values{m_.data()}, Store{m_.data()}, round_of(step));
  }

  std::vector<State> state() override { return {{"m", m_.span(), Spread::kMean}}; }
  std::string describe() const override { return mean_->describe(); }

  void redistribute(const Whole& whole, const Step&) override { store(whole.at("m"), m_.span()); }

 private:
  Memory<float> m_;
  std::unique_ptr<Mean> mean_, sync_;
};

std::vector<Option> vote_options() {
  std::vector<Option> all = lion_options();
  all.push_back(option<&C::form>("form", "vote or count", word_only,
                                 "vote: a step of the majority's sign; count: of the mean of the "
                                 "signs, in more bits on the way back",
                                 kVoteForms));
  all.push_back(option<&C::momentum_sync_every>(
                    "momentum_sync_every", kFromZero, from_zero,
                    "replace the momenta by their mean, in eight bits, every so many steps (Lion "
                    "Cub); 0: never")
                    .in("steps"));
  all.push_back(option<&C::exchange>("exchange", "two-round or auto", word_only,
                                     "auto: the exact mean of the signs instead of the vote where "
                                     "that is measured to be faster; otherwise the vote",
                                     kForms)
                    .taking(kTwoRoundOrAuto)
                    .changeable());
  return all;
}

}  // namespace

Method distributed_lion_method() {
  return {
      .name = "distributed-lion",
      .title = "Distributed Lion",
      .summary =
          "every rank votes with the sign of its own momentum, one bit per parameter from the "
          "first step on; a third to a tenth of AdamW's learning rate",
      .paper =
          "Liu et al., Communication Efficient Distributed Training with Distributed Lion, NeurIPS "
          "2024; momentum_sync_every: Ishikawa et al., Lion Cub, 2024",
      .exchanges = "sign of the momentum, every step",
      .codec = std::string(kVote),
      .python = "DistributedLion",
      .options = vote_options(),
      .defaults = {{"lr", "1e-4"}},
      .rates = lion_rates(),
      .momentum_codec = kMomentumCodec,
      .cost = {.state = 4, .exact = {0.70e-9, 0.60e-9}, .coded = {0.70e-9, 0.40e-9}},
      .sweeps = {.before = "vote-moments", .after = "sign-step"},
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<DistributedLion>(bucket);
      },
      .make_schedule = [](const C&) { return every_step(Step::Kind::kCoded); },
      .rounds =
          [](const C& config, std::int64_t steps) {
            const std::int64_t every = config.momentum_sync_every;
            return Rounds{
                .steps = steps, .coded = steps, .momentum = every > 0 ? steps / every : 0};
          },
  };
}

}  // namespace laconic::inline optim
