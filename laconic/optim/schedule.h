#pragma once

#include <memory>

#include "laconic/core/parallel.h"
#include "laconic/optim/policy.h"

namespace laconic {

// All that a schedule remembers; saved as doubles. Equal on all ranks.
struct Counters {
  double t = 0;                  // steps taken
  double variance_updates = 0;   // J
  double last_sync = 0;
  double lr_peak = 0, last_rise = 0;
  double frozen_at = 0;          // 1-bit Adam: the last dense step, once known; 0/1 Adam: 1 once v stays
  double norm_before = 0;        // 1-bit Adam, auto: ‖v̂‖₁ when it was looked at last
  double open = 0;               // 0/1 Adam: local steps are waiting for a sync
  double variance_due = 0;       // 0/1 Adam: a variance step was put off by a sync
};

// Decides what each step is. `plan` changes nothing, so a step can be given up; `done` counts it.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual Step plan(const Counters& counters, double lr) const = 0;
  // variance_norm gives ‖v‖₁ of the model after the step.
  virtual void done(Counters& counters, const Step& step, FunctionRef<double()> variance_norm) const;
};

// REQUIRES: a validated config.
std::unique_ptr<Schedule> make_schedule(const OptimizerConfig& config);

}  // namespace laconic
