#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "app/report/metrics.h"
#include "app/training/run_config.h"

// How many steps of a run fit into a given time: its steps are rehearsed, and counted by kind.
namespace laconic::app::training {

// Median seconds of a step of each kind; nothing where the rehearsal had none of it.
struct StepTimes {
  std::optional<double> exact, coded, local;
  double alone = 0;    // a step without what its exchange added
  double average = 0;  // over the rehearsal
};

// The first step, which warms up, does not count. REQUIRES: at least two steps.
StepTimes step_times(const std::vector<report::StepRecord>& steps);

// Enough to see every kind of step that the run's optimizer has.
std::int64_t rehearsal_steps(const RunConfig& config);

// Of a run of so many steps, by the schedule of its optimizer. Where that is decided while it
// trains ("auto"), as the rehearsal went.
double expected_seconds(const RunConfig& config, std::int64_t steps, const StepTimes& times);

// Of a run that was taken elsewhere: each of its steps as long as one of its kind takes here.
double seconds_of(const std::vector<report::StepRecord>& run, const StepTimes& times);

// The most steps that are expected to take no longer; at least 1.
std::int64_t steps_within(double seconds, const RunConfig& config, const StepTimes& times);

void to_json(nlohmann::json& json, const StepTimes& times);

}  // namespace laconic::app::training
