#pragma once

#include "laconic/plan/cost.h"

namespace laconic::plan {

// Ranks whose steps take unequal times, and what binds them together: an exchange begins when the
// last of them does, and is used `delay` steps later.
struct Race {
  int ranks = 1;
  double step = 0, deviation = 0;  // seconds of a step between exchanges, and their spread
  double interval = 1;             // steps from one exchange to the next
  double delay = 0;                // steps; 0: ranks wait for the exchange
  double exchange = 0;             // seconds of it
  double work = 0;                 // seconds that an exchange adds to a rank's own steps
};

// Mean seconds of a step over many exchanges, times drawn from a fixed seed.
double seconds_per_step(const Race& race);

}  // namespace laconic::plan
