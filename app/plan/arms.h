#pragma once

#include <map>
#include <string>
#include <vector>

#include "laconic/plan/cost.h"

// The ways to train that `laconic plan` puts side by side.
namespace laconic::app::plan {

struct Scenario {
  laconic::plan::Cluster cluster;
  laconic::plan::Work work;
  laconic::plan::Speeds speeds;
  std::vector<std::string> optimizers;   // methods, perhaps with options: "diloco:every=100"
  bool bf16 = false;                     // the exact steps of methods that code
  std::string dense_codec;               // of the same, where a method has such an option
  std::map<std::string, Rounds> rounds;  // of each optimizer
};

struct Arm {
  std::string optimizer, wire, exchange;  // "adamw", "fp32", "nodes"
  laconic::plan::MethodStep method;
  Rounds rounds;
  laconic::plan::Average cost{};
  double memory = 0;
  double over_fp32 = 0, over_bf16 = 0;              // speed against the all-reduces of AdamW
  double pays_below_fp32 = 0, pays_below_bf16 = 0;  // plan::break_even

  double seconds() const { return cost.mean.seconds; }
  bool dense() const { return rounds.coded == 0 && rounds.steps == rounds.dense; }
  std::string name() const { return optimizer + " " + wire; }
};

// The baseline, then Method::shown: what compare and plan take where none are named.
std::vector<std::string> default_optimizers();
// "adamw", …: what --optimizers may name.
std::vector<std::string> planned_optimizers();
// Of a method, perhaps with options, in a run of so many steps.
OptimizerConfig config_of(const std::string& optimizer, std::int64_t steps);

// The all-reduces of AdamW in fp32 and bf16 come first, whatever was asked for.
std::vector<Arm> compare(const Scenario& scenario);

// The faster of each optimizer and wire, in order.
std::vector<Arm> best_exchanges(const std::vector<Arm>& arms);

// Mean seconds of a step of each at a rate between nodes (bytes a second).
struct Point {
  double rate;
  std::vector<double> seconds;
};
std::vector<Point> sweep(const Scenario& scenario, const std::vector<Arm>& arms, double from,
                         double to, int points);

// A sentence or two: what to use, and where that ends. Coding must gain 3 % to be advised.
std::string advice(const Scenario& scenario, const std::vector<Arm>& arms);

}  // namespace laconic::app::plan
