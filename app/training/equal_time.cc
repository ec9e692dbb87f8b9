#include "app/training/equal_time.h"

#include <algorithm>

#include "app/timing.h"
#include "laconic/core/error.h"
#include "laconic/optim/method.h"

namespace laconic::app::training {
namespace {

using nlohmann::json;
using report::StepRecord;

constexpr std::int64_t kMostFound = 100'000'000;
// The freeze of 1-bit Adam after a fifth of it, and local steps of 0/1 Adam, lie within.
constexpr std::int64_t kCodedRehearsal = 16, kExactRehearsal = 7;

std::optional<double> median(const std::vector<StepRecord>& steps, std::string_view kind) {
  std::vector<double> seconds;
  for (std::size_t i = 1; i < steps.size(); ++i)
    if (steps[i].kind == kind) seconds.push_back(steps[i].step_seconds);
  if (seconds.empty()) return {};
  return Sample(std::move(seconds)).median;
}

// Where no step of a kind was seen, what is nearest to it.
struct ByKind {
  double exact, coded, local;
};
ByKind by_kind(const StepTimes& times) {
  const double exact = times.exact.value_or(times.coded.value_or(times.average));
  return {exact, times.coded.value_or(exact), times.local.value_or(times.alone)};
}

const Method& method_of(const RunConfig& config) {
  return method_named(config.optimizer.algorithm);
}

json or_null(std::optional<double> value) { return value ? json(*value) : json(); }

}  // namespace

StepTimes step_times(const std::vector<StepRecord>& steps) {
  std::vector<double> alone;
  StepTimes times{median(steps, "dense"), median(steps, "coded"), median(steps, "silent")};
  for (std::size_t i = 1; i < steps.size(); ++i) {
    alone.push_back(steps[i].step_seconds - steps[i].exposed_seconds);
    times.average += steps[i].step_seconds / static_cast<double>(steps.size() - 1);
  }
  times.alone = Sample(std::move(alone)).median;
  return times;
}

std::int64_t rehearsal_steps(const RunConfig& config) {
  return method_of(config).exact ? kExactRehearsal : kCodedRehearsal;
}

double expected_seconds(const RunConfig& config, std::int64_t steps, const StepTimes& times) {
  Rounds rounds;
  try {
    OptimizerConfig optimizer = config.optimizer;
    optimizer.total_steps = steps;
    rounds = method_of(config).rounds(validated(std::move(optimizer)), steps);
  } catch (const Error& error) {
    if (error.code() != Code::kInvalidArgument) throw;
    return times.average * static_cast<double>(steps);
  }
  const ByKind seconds = by_kind(times);
  return seconds.exact * static_cast<double>(rounds.dense) +
         seconds.coded * static_cast<double>(rounds.coded) +
         seconds.local * static_cast<double>(steps - rounds.rounds());
}

double seconds_of(const std::vector<StepRecord>& run, const StepTimes& times) {
  const ByKind seconds = by_kind(times);
  double sum = 0;
  for (const StepRecord& step : run)
    sum += step.kind == "dense"   ? seconds.exact
           : step.kind == "coded" ? seconds.coded
                                  : seconds.local;
  return sum;
}

std::int64_t steps_within(double seconds, const RunConfig& config, const StepTimes& times) {
  const auto fits = [&](std::int64_t steps) {
    return expected_seconds(config, steps, times) <= seconds;
  };
  std::int64_t most = 1;
  while (most < kMostFound && fits(2 * most)) most *= 2;
  for (std::int64_t more = most / 2; more > 0; more /= 2)
    if (fits(most + more)) most += more;
  return most;
}

void to_json(json& json, const StepTimes& times) {
  json = {{"exact", or_null(times.exact)},
          {"coded", or_null(times.coded)},
          {"local", or_null(times.local)}};
}

}  // namespace laconic::app::training
