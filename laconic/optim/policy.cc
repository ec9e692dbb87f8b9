#include "laconic/optim/policy.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "laconic/core/error.h"

namespace laconic::inline optim {

// Gaps of 2^q start at k = 1 + kappa·(2^q − 1) and there are kappa of them, so both q and the place
// within them follow from the step.
bool VarianceSteps::contains(std::int64_t step) const noexcept {
  if (step < 1 || step > freeze_) return false;
  const std::int64_t after_first = step - 1;
  const auto whole = static_cast<std::uint64_t>(after_first / kappa_ + 1);
  const auto gap = static_cast<std::int64_t>(std::bit_floor(whole));
  return ((after_first - kappa_ * (gap - 1)) & (gap - 1)) == 0;
}

std::int64_t VarianceSteps::count() const noexcept {
  std::int64_t all = 0, begin = 1;
  for (std::int64_t gap = 1; begin <= freeze_; gap *= 2) {
    const std::int64_t fit = (freeze_ - begin) / gap + 1;
    if (fit <= kappa_) return all + fit;
    all += kappa_;
    begin += kappa_ * gap;
  }
  return all;
}

std::pair<std::int64_t, std::int64_t> Intervals::syncs_after_freeze(
    std::int64_t steps) const noexcept {
  std::int64_t left = std::max<std::int64_t>(0, steps - freeze_), least = 0, largest = 1;
  for (std::int64_t interval = 1; left > 0; interval *= 2) {
    const bool last = interval >= most_;
    const std::int64_t length = last ? left : std::min(left, double_every_);
    const std::int64_t each = std::min(interval, most_);
    least += length / each;
    largest += (length + each - 1) / each;
    left -= length;
  }
  return {least, largest};
}

std::int64_t Intervals::at(std::int64_t step, double lr, double lr_peak) const noexcept {
  if (step <= freeze_) return 1;
  std::int64_t doublings = 0;
  if (double_every_ != kAuto) {
    doublings = (step - freeze_ - 1) / double_every_;
  } else if (lr == 0) {
    return most_;
  } else if (lr_peak / lr >= 1) {
    doublings = std::ilogb(lr_peak / lr);
  }
  constexpr std::int64_t kLargest = 62;
  return doublings > kLargest ? most_ : std::min(most_, std::int64_t{1} << doublings);
}

double Rounds::bits_per_parameter_per_step(double dense_bits, double coded_bits) const noexcept {
  if (steps == 0) return 0;
  return (dense_bits * static_cast<double>(dense) + coded_bits * static_cast<double>(coded)) /
         static_cast<double>(steps);
}

Rounds freeze_rounds(std::int64_t steps, std::int64_t freeze_step) {
  if (freeze_step < 1)
    fail(Code::kInvalidArgument,
         "freeze_step is {}: rounds are known beforehand for a number from 1 only", freeze_step);
  const std::int64_t dense = std::min(steps, freeze_step);
  return {steps, dense, steps - dense};
}

Rounds interval_rounds(std::int64_t steps, const VarianceSteps& variance,
                       const Intervals& intervals) {
  if (intervals.follow_lr())
    fail(Code::kInvalidArgument,
         "double_every is auto: rounds are known beforehand for a number from 1 only");
  Rounds rounds{.steps = steps};
  std::int64_t last_sync = 0;
  for (std::int64_t t = 1; t <= steps; ++t) {
    if (variance.contains(t))
      ++rounds.dense;
    else if (t - last_sync >= intervals.at(t, 1, 1) || t == steps)
      ++rounds.coded;
    else
      continue;
    last_sync = t;
  }
  return rounds;
}

std::pair<std::int64_t, std::int64_t> volume(std::int64_t steps, std::int64_t exact,
                                             const VarianceSteps& variance,
                                             const Intervals& intervals) noexcept {
  const std::int64_t until_freeze =
      exact * variance.count() + std::min(steps, variance.freeze()) - variance.count();
  const auto [least, most] = intervals.syncs_after_freeze(steps);
  return {until_freeze + least, until_freeze + most};
}

}  // namespace laconic::inline optim
