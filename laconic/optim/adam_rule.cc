#include "laconic/optim/adam_rule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "laconic/core/error.h"
#include "laconic/optim/gradient_rule.h"
#include "laconic/optim/scalars.h"

namespace laconic::inline optim {
namespace {

using C = OptimizerConfig;
constexpr Word kNorms[] = {word("l2", kernels::Norm::kL2), word("l1", kernels::Norm::kL1)};

}  // namespace

std::vector<Option> adam_options() {
  return {
      option<&C::beta1>("beta1", kBelowOne, below_one, "decay of the first moment"),
      option<&C::beta2>("beta2", kBelowOne, below_one, "decay of the second moment", kByMethod)
          .otherwise("0.999"),
      option<&C::epsilon>("epsilon", "a number > 0 that a float can hold", positive_float,
                          "added to the root of the second moment"),
      boolean<&C::bias_correction>("bias_correction", "correct both moments for their start at 0")};
}

std::vector<Option> one_bit_options() {
  std::vector<Option> all = adam_options();
  all.push_back(option<&C::variance_floor>(
      "variance_floor", kFiniteFromZero, finite_from_zero,
      "least second moment of an element, as a share of its scale block's mean; 0: none"));
  all.push_back(option<&C::scale_norm>("scale_norm", "l2 or l1", word_only,
                                       "norm of a scale block that its scale keeps", kNorms));
  all.push_back(option<&C::exchange>("exchange", "two-round or auto", word_only,
                                     "auto: exact instead of coded where that is measured to be "
                                     "faster; otherwise coded",
                                     kForms)
                    .taking(kTwoRoundOrAuto)
                    .changeable());
  for (const Option& one : dense_round_options()) all.push_back(one);
  return all;
}

void fill_from_length(std::int64_t& steps, const OptimizerConfig& config, const char* name,
                      std::int64_t from_length) {
  if (steps != kUnset) return;
  if (config.total_steps == kUnset)
    fail(Code::kInvalidArgument, "{} has neither {} nor total_steps: give one of them",
         config.algorithm, name);
  steps = std::max<std::int64_t>(1, from_length);
}

std::int64_t percent_of_run(const OptimizerConfig& config, int share) {
  return std::llround(static_cast<double>(config.total_steps) * share / 100);
}

double AdamRule::momentum_correction(const Step& step) const {
  const OptimizerConfig& config = *bucket_.config;
  return config.bias_correction ? 1 / (1 - power(config.beta1, step.t)) : 1;
}

double AdamRule::variance_correction(const Step& step) const {
  const OptimizerConfig& config = *bucket_.config;
  return config.bias_correction ? 1 / (1 - power(config.beta2, step.variance_updates)) : 1;
}

double AdamRule::rate(const Step& step) const {
  const OptimizerConfig& config = *bucket_.config;
  return config.bias_correction ? lr() / (1 - power(config.beta1, step.t)) : lr();
}

kernels::AdamStep AdamRule::scalars(const Step& step) const {
  const OptimizerConfig& config = *bucket_.config;
  return {.beta1 = static_cast<float>(config.beta1),
          .one_minus_beta1 = static_cast<float>(1 - config.beta1),
          .beta2 = static_cast<float>(config.beta2),
          .one_minus_beta2 = static_cast<float>(1 - config.beta2),
          .rate = static_cast<float>(rate(step)),
          .decay = static_cast<float>(decay()),
          .correction = static_cast<float>(variance_correction(step)),
          .epsilon = static_cast<float>(config.epsilon)};
}

AdamWUpdate AdamRule::adam_update(const Step& step) {
  parts_.assign(1, {0, m_.size(), scalars(step)});
  return {parts_, m_.data(), v_.data(), bucket_.x.data(), bad()};
}

namespace {

constexpr std::string_view kDensePrefix = "dense_";

}  // namespace

DenseRoundsRule::DenseRoundsRule(const Bucket& bucket)
    : AdamRule(bucket), dense_(make_dense()), lossy_(codes_dense_rounds()) {
  if (lossy_) means_.push_back(dense_.get());
}

void DenseRoundsRule::dense_round(const Sink& sink, const Step& step) {
  exchange(*dense_, Values{bucket_.g.data(), lossy_}, sink, step);
}

void DenseRoundsRule::begin_dense_round(const Sink& sink, const Step& step) {
  begin_exchange(*dense_, Values{bucket_.g.data(), lossy_}, sink, step);
}

void DenseRoundsRule::freeze() {
  for (const State& state : dense_->state()) clear(state);
}

std::vector<State> DenseRoundsRule::dense_state() {
  std::vector<State> all = dense_->state();
  for (State& one : all) {
    one.name.insert(0, kDensePrefix);
    one.optional = true;
  }
  return all;
}

void DenseRoundsRule::redistribute_dense(const Whole& whole) {
  hand_out(residuals_in(whole, kDensePrefix), dense_->state());
}

std::string DenseRoundsRule::described(const Mean& coded) const {
  if (!lossy_) return coded.describe();
  return fmt::format("{}; dense rounds: {}", coded.describe(), dense_->describe());
}

double AdamRule::variance_norm() const {
  bucket_.device->run(TileSums{v_.data(), v_.size(), kernels::Norm::kL1, false, sums_.data()});
  return std::accumulate(sums_.begin(), sums_.end(), 0.0);
}

Floors::Floors(Device& device, const Mean& mean, std::span<float> v, double factor, bool in_parts,
               bool on)
    : device_(device),
      begins_(mean.blocks()),
      begins_there_(device, device.is_host() ? 0 : begins_.size()),
      floors_(device, begins_.size()),
      v_(v),
      factor_(static_cast<float>(factor)),
      in_parts_(in_parts),
      on_(on) {
  if (!begins_there_.empty()) copy_to<std::size_t>(device_, begins_, begins_there_.span());
}

void Floors::run(bool freeze) {
  device_.run(UpdateFloors{v_.data(), table(), factor_, on_, in_parts_, freeze, &dead_});
}

}  // namespace laconic::inline optim
