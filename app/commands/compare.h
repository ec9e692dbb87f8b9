#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/commands/run_options.h"
#include "app/training/comparison.h"

namespace laconic::app::commands {

struct CompareOptions {
  RunOptions run;
  std::vector<std::string> optimizers, gates;
  int seeds = 1;
  double seconds = 0;     // of training for each arm; 0: the same steps
  std::int64_t tune = 0;  // steps of each run that a rate is chosen by; 0: rates as they are
  std::string network;    // whose times are computed; empty: none
  bool frontier = false;
  training::Target target;
  bool resume = false, overwrite = false;
};

// Trains all arms under all seeds, and writes and prints what they say together. Throws Exit with
// the code of a gate that did not hold or of the signal that stopped it, and what runs throw.
void compare(const CompareOptions& options);

}  // namespace laconic::app::commands
