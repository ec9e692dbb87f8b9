#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/gradient_rule.h"
#include "laconic/optim/one_bit_rule.h"
#include "laconic/optim/trust_rule.h"

namespace laconic::inline optim {
namespace {

// After an exchange m, v and x are equal on all ranks, so are the trust ratios: they cost no
// communication.
class OneBitLamb final : public TrustRule<OneBitRule> {
 public:
  using TrustRule::TrustRule;

 private:
  Sink dense_update(const Step& step) override { return moments_update(step); }
  Sink coded_update(const Step&) override { return MomentumStore{m_.data(), v_.data()}; }
  FloorTable floors_of(const Step& step) const override {
    return step.variance ? FloorTable{} : floors();
  }
};

}  // namespace

Method one_bit_lamb_method() {
  return {
      .name = "one-bit-lamb",
      .title = "1-bit LAMB",
      .summary = "1-bit Adam whose steps are as long as each tensor's trust ratio allows",
      .paper =
          "Li et al., 1-bit LAMB: Communication Efficient Large-Scale Large-Batch Training with "
          "LAMB's Convergence Speed, HiPC 2022",
      .exchanges =
          "gradient, exactly or with dense_codec, until the freeze; then momentum, every step",
      .codec = "sign",
      .python = "OneBitLAMB",
      .options = with_trust_options(freeze_options()),
      .aliases = {{"min_coeff", "min_trust"}, {"max_coeff", "max_trust"}},
      .rates = trust_rates(),
      .dense_with = dense_round_codec,
      // 1-bit Adam's, in proportion to the bytes moved.
      .cost = {.state = 8,
               .state_of_node = 4,
               .state_of_all = 4,
               .exact = {0, 2.1e-9},
               .coded = {0.60e-9, 1.8e-9}},
      .sweeps = {.exact = "adam-by-tensor",
                 .before = "encode-momentum",
                 .after = "decode-momentum-by-tensor"},
      .complete =
          [](OptimizerConfig& config) {
            check_trust(config);
            complete_freeze(config);
          },
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<OneBitLamb>(bucket);
      },
      .make_schedule = freeze_once,
      .rounds = rounds_with_freeze,
  };
}

}  // namespace laconic::inline optim
