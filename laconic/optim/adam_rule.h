#pragma once

#include <algorithm>

#include "laconic/optim/option.h"
#include "laconic/optim/rule.h"

namespace laconic {

// Options of the Adam family.
std::vector<Option> adam_options();
// Those, and what a one-bit mean adds.
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
      : Rule(bucket), m_(bucket.x.size()), v_(bucket.x.size()) {}

  double variance_norm() const override;

 protected:
  // a_t = lr/(1 - beta1^t).
  double rate(const Step& step) const;
  kernels::AdamStep scalars(const Step& step) const;
  // An Adam step on one tile of the exact mean; a bad one leaves everything.
  void adam_tile(const kernels::AdamStep& step, std::size_t begin, std::span<const float> mean);

  Buffer<float> m_, v_;
};

// The variance floor of each scale block: variance_floor * V, V the mean of v over the block.
// Elements with v = 0 are dead; while v may still change they are found by v itself, after the
// freeze only whole blocks are.
class Floors {
 public:
  // `on`: a coded mean is applied. Without it every floor is 0.
  Floors(const Mean& mean, std::span<float> v, double factor, bool in_parts, bool on);

  void update();
  // v = 0 becomes V, where that is not 0.
  void freeze();
  float at(std::size_t position) const;
  // Calls work(begin, values, floor) for the parts of a mean that lie in one block each. Exact and
  // flat means come in tiles that may hold several blocks.
  template <typename Work>
  void for_each_part(std::size_t begin, std::span<const float> mean, const Work& work) const {
    for (std::size_t done = 0; done < mean.size();) {
      const std::size_t block = block_of(begin + done);
      const std::size_t end = std::min(begins_[block] + count(block), begin + mean.size());
      work(begin + done, mean.subspan(done, end - begin - done), floors_[block]);
      done = end - begin;
    }
  }
  bool any_dead_block() const noexcept { return dead_block_; }
  std::size_t blocks() const noexcept { return begins_.size(); }
  std::size_t begin(std::size_t block) const noexcept { return begins_[block]; }
  std::size_t count(std::size_t block) const noexcept;

 private:
  float mean_of(std::size_t block) const;
  std::size_t block_of(std::size_t position) const;

  std::vector<std::size_t> begins_;
  std::vector<float> floors_;
  std::span<float> v_;
  float factor_;
  bool in_parts_, on_, dead_block_ = true;
};

}  // namespace laconic
