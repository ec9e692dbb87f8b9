#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/report/metrics.h"

// What several runs show together. docs/reference/metrics.md has the fields.
namespace laconic::app::training {

// A finished run: its summary and its metrics.
struct FinishedRun {
  std::string folder;  // below the comparison's
  nlohmann::json summary;
  std::vector<report::StepRecord> records;
};

// The runs of one arm, one a seed, as an element of `arms` without what needs the baseline.
nlohmann::json summarize_arm(const std::vector<FinishedRun>& runs);

// Adds steps_to_baseline and seconds_to_baseline to every arm: when the accuracy, or where there is
// none the validation loss, the mean over seeds, came within 1 % of the baseline's last one; null:
// never. REQUIRES: arms and runs in the same order, the baseline's at index `baseline`.
void add_times_to_baseline(nlohmann::json& arms, const std::vector<std::vector<FinishedRun>>& runs,
                           std::size_t baseline);

// Every combination of values that stand between '/': of "local-steps:codec=int4/sign:every=4/8"
// the four arms local-steps:codec=int4:every=4, …:every=8, …
std::vector<std::string> combinations(const std::string& arm);

// What --target-loss and --target-metric ask for; at most one of them.
struct Target {
  std::optional<double> loss, metric;
  explicit operator bool() const { return loss || metric; }
};

// "0.84" or "84%". Error(kInvalidArgument) with a right example; `option` is named in it.
double parse_target(const std::string& text, const char* option);

// Error(kInvalidArgument) where the metric cannot have this value.
void check_target(const Target& target, const std::string& metric);

// Adds steps_to_target and seconds_to_target to every arm: when the mean over seeds of the
// validation came to the target; null: never. REQUIRES: arms and runs in the same order.
void add_times_to_target(nlohmann::json& arms, const std::vector<std::vector<FinishedRun>>& runs,
                         const Target& target);

// A condition that no arm but the baseline may meet: "loss>+1%" (more than 1 % above the
// baseline's), "accuracy<-0.005" (lower than the baseline's by more), "bits>2" (whatever the
// baseline's).
class Gate {
 public:
  // Error(kInvalidArgument) with right examples.
  explicit Gate(const std::string& text);
  // Why the arm fails, empty if it does not.
  std::string violation(const nlohmann::json& arm, const nlohmann::json& baseline) const;

 private:
  std::string text_, field_;
  bool above_ = true, relative_ = false, percent_ = false;
  double number_ = 0;
};

}  // namespace laconic::app::training
