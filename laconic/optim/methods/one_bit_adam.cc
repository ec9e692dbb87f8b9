#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/gradient_rule.h"
#include "laconic/optim/one_bit_rule.h"

namespace laconic::inline optim {
namespace {

// m, v the moments, ḡ the mean of the gradients. Until the freeze an Adam step on ḡ; from
// then on v stays, each rank adds its own gradient to m, and the one-bit mean of these momenta is
// the next m.
class OneBitAdam final : public OneBitRule {
 public:
  using OneBitRule::OneBitRule;

 private:
  Sink dense_update(const Step& step) override { return adam_update(step); }
  Sink coded_update(const Step& step) override {
    return MomentumApply{scalars(step), floors(), m_.data(), v_.data(), bucket_.x.data()};
  }
};

}  // namespace

Method one_bit_adam_method() {
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
      .options = freeze_options(),
      .shown = true,
      .dense_with = dense_round_codec,
      .cost = {.state = 8,
               .state_of_node = 4,
               .state_of_all = 4,
               .exact = {0, 1.23e-9},
               .coded = {0.60e-9, 0.80e-9}},
      .sweeps = {.exact = "adam", .before = "encode-momentum", .after = "decode-momentum"},
      .complete = complete_freeze,
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<OneBitAdam>(bucket);
      },
      .make_schedule = freeze_once,
      .rounds = rounds_with_freeze,
  };
}

}  // namespace laconic::inline optim
