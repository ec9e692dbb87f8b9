#pragma once

#include <algorithm>

#include "laconic/optim/option.h"
#include "laconic/optim/rule.h"

namespace laconic::inline optim {

// Options of the Adam family.
std::vector<Option> adam_options();
// Those, what a one-bit mean adds, and what the rounds of gradients beside it do.
std::vector<Option> one_bit_options();
// Where `steps` is unset it becomes `from_length`; Error(kInvalidArgument) when the run's length is
// unset too.
void fill_from_length(std::int64_t& steps, const OptimizerConfig& config, const char* name,
                      std::int64_t from_length);
// `share` per cent of total_steps.
std::int64_t percent_of_run(const OptimizerConfig& config, int share);

// First and second moments, and what the Adam family has in common.
class AdamRule : public Rule {
 public:
  explicit AdamRule(const Bucket& bucket)
      : Rule(bucket),
        m_(*bucket.device, bucket.x.size()),
        v_(*bucket.device, bucket.x.size()),
        sums_((bucket.x.size() + kTile - 1) / kTile) {}

  double variance_norm() const override;

 protected:
  // 1/(1 - beta1^t) and 1/(1 - beta2^J); 1 without bias correction.
  double momentum_correction(const Step& step) const;
  double variance_correction(const Step& step) const;
  // a_t = lr/(1 - beta1^t).
  double rate(const Step& step) const;
  kernels::AdamStep scalars(const Step& step) const;
  // An Adam step on the exact mean; bad blocks leave everything. The parts live until the next call.
  AdamWUpdate adam_update(const Step& step);

  Memory<float> m_, v_;
  std::vector<AdamPart> parts_;

 private:
  mutable std::vector<float> sums_;  // of v, tile by tile
};

// An Adam method with a one-bit mean, and dense rounds that average the gradients: exactly, or with
// dense_codec. What such a codec leaves out is added to the next dense round, whatever v is there,
// and dropped at the freeze.
class DenseRoundsRule : public AdamRule {
 public:
  explicit DenseRoundsRule(const Bucket& bucket);
  void freeze() override;

 protected:
  void dense_round(const Sink& sink, const Step& step);
  void begin_dense_round(const Sink& sink, const Step& step);
  // The residuals of dense rounds, under names of their own.
  std::vector<State> dense_state();
  // They, on other ranks.
  void redistribute_dense(const Whole& whole);
  // What runs, with the codec of dense rounds where that is lossy.
  std::string described(const Mean& coded) const;

 private:
  std::unique_ptr<Mean> dense_;
  bool lossy_;
};

// The variance floor of each scale block: variance_floor * V, V the mean of v over the block.
// Elements with v = 0 are dead; while v may still change they are found by v itself, after the
// freeze only whole blocks are.
class Floors {
 public:
  // `on`: a coded mean is applied. Without it every floor is 0.
  Floors(Device& device, const Mean& mean, std::span<float> v, double factor, bool in_parts,
         bool on);

  void update() { run(false); }
  // v = 0 becomes V, where that is not 0.
  void freeze() { run(true); }
  FloorTable table() const noexcept {
    return {begins_, floors_.span(), v_.size(), begins_there_.data()};
  }
  bool any_dead_block() const noexcept { return dead_ != 0; }

 private:
  void run(bool freeze);

  Device& device_;
  std::vector<std::size_t> begins_;
  Memory<std::size_t> begins_there_;
  Memory<float> floors_;
  std::span<float> v_;
  float factor_;
  bool in_parts_, on_;
  std::size_t dead_ = 1;  // blocks; none is known yet
};

}  // namespace laconic::inline optim
