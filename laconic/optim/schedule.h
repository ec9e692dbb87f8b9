#pragma once

#include <array>
#include <memory>
#include <span>

#include "laconic/core/parallel.h"
#include "laconic/optim/policy.h"

namespace laconic::inline optim {

// All that schedules remember; saved as doubles. Equal on all ranks.
class Counters {
 public:
  double& t() { return values_[0]; }                 // steps taken
  double& variance_updates() { return values_[1]; }  // J
  double& last_sync() { return values_[2]; }
  double& lr_before() { return values_[3]; }
  double& lr_peak() { return values_[4]; }
  double& last_rise() { return values_[5]; }     // the last step whose rate was higher than before
  double& frozen_at() { return values_[6]; }     // the step at which v was frozen; 0: not yet
  double& norm_before() { return values_[7]; }   // ‖v̂‖₁ when it was looked at last
  double& open() { return values_[8]; }          // 1: local steps wait for a sync
  double& variance_due() { return values_[9]; }  // 1: a variance step was put off by a sync

  std::span<double> values() { return values_; }

 private:
  std::array<double, 10> values_{};
};

// Decides what each step is. `plan` changes nothing, so a step can be given up; `done` counts it.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual Step plan(Counters counters, double lr) const = 0;
  // variance_norm gives ‖v‖₁ of the model after the step.
  virtual void done(Counters& counters, const Step& step,
                    FunctionRef<double()> variance_norm) const;

 protected:
  // The step after `counters`, as far as all schedules agree.
  static Step next(Counters counters, double lr);
};

// An exchange of this kind in every step.
std::unique_ptr<Schedule> every_step(Step::Kind kind);

}  // namespace laconic::inline optim
