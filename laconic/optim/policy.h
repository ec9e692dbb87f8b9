#pragma once

#include <cstdint>
#include <utility>

#include "laconic/optim/config.h"

// When ranks exchange. Small objects without memory of their own: everything follows from t, the
// last sync and the learning rate, so a resume continues them.
namespace laconic::inline optim {

// T_v: steps 1 = k_0 < k_1 < …, k_{j+1} = k_j + 2^floor(j/kappa), while k_j <= freeze.
class VarianceSteps {
 public:
  VarianceSteps(std::int64_t kappa, std::int64_t freeze) : kappa_(kappa), freeze_(freeze) {}
  bool contains(std::int64_t step) const noexcept;
  std::int64_t freeze() const noexcept { return freeze_; }
  std::int64_t count() const noexcept;  // of all of them

 private:
  std::int64_t kappa_, freeze_;
};

// T_u: 1 while t <= freeze, then doubling every `double_every` steps up to `most`;
// kAuto: the largest power of two <= lr_peak/lr, up to `most`.
class Intervals {
 public:
  Intervals(std::int64_t freeze, std::int64_t double_every, std::int64_t most)
      : freeze_(freeze), double_every_(double_every), most_(most) {}
  std::int64_t at(std::int64_t step, double lr, double lr_peak) const noexcept;
  bool follow_lr() const noexcept { return double_every_ == kAuto; }
  // The fewest and the most syncs of a run's steps after the freeze. REQUIRES: !follow_lr().
  std::pair<std::int64_t, std::int64_t> syncs_after_freeze(std::int64_t steps) const noexcept;

 private:
  std::int64_t freeze_, double_every_, most_;
};

inline constexpr int kAllFragments = -1;

// What one step does; equal on all ranks.
struct Step {
  enum class Kind : std::uint8_t { kNothing, kDense, kCoded, kSilent };
  std::int64_t t = 0;
  double lr = 0;
  Kind kind = Kind::kDense;
  bool variance = true;               // v is updated
  bool freezes = false;               // the first step on which v stays
  std::int64_t interval = 1;          // in force
  std::int64_t variance_updates = 0;  // J, this step's included
  int fragment = kAllFragments;       // of the model, which is exchanged
  std::int64_t delay = 0;             // steps after which the mean is applied
  bool exchanges() const noexcept { return kind == Kind::kDense || kind == Kind::kCoded; }
};

// Volume and rounds that follow from the policies alone; where `auto` leaves them to the training,
// Error(kInvalidArgument).
struct Rounds {
  std::int64_t steps = 0, dense = 0, coded = 0;
  // Of the coded ones, those in which momenta are averaged beside (Method::momentum_codec).
  std::int64_t momentum = 0;
  std::int64_t fragments = 0;  // exchanged in all, where a round is made of several; else 0
  std::int64_t rounds() const noexcept { return dense + coded; }
  // With dense rounds of `dense_bits` per parameter and coded ones of `coded_bits`.
  double bits_per_parameter_per_step(double dense_bits, double coded_bits) const noexcept;
};
// Exact until the freeze, coded after it.
Rounds freeze_rounds(std::int64_t steps, std::int64_t freeze_step);
// Exact on variance steps, coded after intervals of local steps.
Rounds interval_rounds(std::int64_t steps, const VarianceSteps& variance,
                       const Intervals& intervals);
// The least and the most that the rounds of a run can send, counted in coded rounds; an exact one
// is as long as `exact` of those. REQUIRES: !intervals.follow_lr().
std::pair<std::int64_t, std::int64_t> volume(std::int64_t steps, std::int64_t exact,
                                             const VarianceSteps& variance,
                                             const Intervals& intervals) noexcept;

}  // namespace laconic::inline optim
