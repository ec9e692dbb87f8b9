#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace laconic::app::training {

struct LoopConfig {
  std::string task = "text", model = "gpt2-mini";  // on the task's generated data
  std::int64_t batch = 8;
  int repeats = 30, threads = 1;
};

struct LoopTimes {
  std::vector<double> plain, ours;  // seconds of each step, taken in turns
  double largest_difference = 0;    // of a weight, after three steps
};

// Steps of AdamW on one rank: the loop that a LibTorch user writes for one machine, and
// laconic::torch's. Error(kCorrupt) when their weights part.
LoopTimes time_loops(const LoopConfig& config);

}  // namespace laconic::app::training
