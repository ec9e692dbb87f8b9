#include "app/training/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <regex>

#include "app/timing.h"
#include "laconic/core/error.h"

namespace laconic::app::training {
namespace {

using nlohmann::json;

constexpr double kWithin = 1.01;  // of the baseline's last accuracy, or of its validation loss

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// The sample standard deviation; 0 for one value.
double spread(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

std::vector<double> gather(const std::vector<FinishedRun>& runs, const char* field) {
  std::vector<double> values;
  for (const FinishedRun& run : runs) values.push_back(run.summary.at(field).get<double>());
  return values;
}

double median_of(const std::vector<FinishedRun>& runs, double report::StepRecord::*field) {
  std::vector<double> values;
  for (const FinishedRun& run : runs)
    for (const report::StepRecord& record : run.records) values.push_back(record.*field);
  return Sample(std::move(values)).median;
}

struct Validated {
  std::int64_t step = 0;
  double loss = 0, metric = 0, seconds = 0;
};

// Means over the runs, at the steps that all of them validated.
std::vector<Validated> validation_curve(const std::vector<FinishedRun>& runs) {
  std::map<std::int64_t, std::vector<const report::StepRecord*>> by_step;
  for (const FinishedRun& run : runs)
    for (const report::StepRecord& record : run.records)
      if (record.validation_loss && record.validation_metric)
        by_step[record.step].push_back(&record);
  std::vector<Validated> curve;
  for (const auto& [step, records] : by_step) {
    if (records.size() != runs.size()) continue;
    Validated point{.step = step};
    for (const report::StepRecord* record : records) {
      point.loss += *record->validation_loss / static_cast<double>(records.size());
      point.metric += *record->validation_metric / static_cast<double>(records.size());
      point.seconds += record->seconds / static_cast<double>(records.size());
    }
    curve.push_back(point);
  }
  return curve;
}

// Adds steps_to_<what> and seconds_to_<what>: of the first point for which `reached` holds.
template <typename Reached>
void add_first(json& arm, const std::vector<FinishedRun>& runs, const std::string& what,
               const Reached& reached) {
  json &steps = arm["steps_to_" + what], &seconds = arm["seconds_to_" + what];
  steps = seconds = nullptr;
  for (const Validated& point : validation_curve(runs)) {
    if (!reached(point)) continue;
    steps = point.step;
    seconds = point.seconds;
    return;
  }
}

}  // namespace

json summarize_arm(const std::vector<FinishedRun>& runs) {
  json arm = runs.front().summary;
  const auto losses = gather(runs, "final_loss"), metrics = gather(runs, "final_metric");
  arm["final_loss_mean"] = mean(losses);
  arm["final_loss_spread"] = spread(losses);
  arm["final_metric_mean"] = mean(metrics);
  arm["final_metric_spread"] = spread(metrics);
  arm["training_seconds"] = mean(gather(runs, "seconds"));
  arm["step_seconds"] = median_of(runs, &report::StepRecord::step_seconds);
  arm["exposed_seconds"] = median_of(runs, &report::StepRecord::exposed_seconds);
  arm["runs"] = json::array();
  for (const FinishedRun& run : runs) arm["runs"].push_back(run.folder);
  return arm;
}

void add_times_to_baseline(json& arms, const std::vector<std::vector<FinishedRun>>& runs,
                           std::size_t baseline) {
  const auto last = validation_curve(runs[baseline]);
  if (last.empty())
    fail(Code::kInvalidArgument, "the baseline has no validated step that all its seeds share");
  const Validated& wanted = last.back();
  const bool by_accuracy = runs[baseline].front().summary.value("metric", "") == "accuracy";
  const auto reached = [&](const Validated& point) {
    return by_accuracy ? point.metric * kWithin >= wanted.metric
                       : point.loss <= wanted.loss * kWithin;
  };
  for (std::size_t i = 0; i < runs.size(); ++i) add_first(arms[i], runs[i], "baseline", reached);
}

std::vector<std::string> combinations(const std::string& arm) {
  const std::size_t slash = arm.find('/');
  if (slash == std::string::npos) return {arm};
  // A value begins after its '=', a method's name at the start; both end at ':'.
  const std::size_t before = arm.find_last_of("=:", slash);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const std::size_t end = std::min(arm.find(':', slash), arm.size());
  std::vector<std::string> all;
  for (std::size_t at = begin; at <= end;) {
    const std::size_t stop = std::min(arm.find('/', at), end);
    const std::string one = arm.substr(0, begin) + arm.substr(at, stop - at) + arm.substr(end);
    for (std::string& each : combinations(one)) all.push_back(std::move(each));
    at = stop + 1;
  }
  return all;
}

double parse_target(const std::string& text, const char* option) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string_view rest = end;
  if (end == text.c_str() || !(rest.empty() || rest == "%") || !std::isfinite(number) || number < 0)
    fail(Code::kInvalidArgument, "{} {}: give a number, for example 0.84 or 84%", option, text);
  return rest.empty() ? number : number / 100;
}

void check_target(const Target& target, const std::string& metric) {
  if (target.metric && metric == "accuracy" && *target.metric > 1)
    fail(Code::kInvalidArgument,
         "--target-metric {:g}: an accuracy is a share, at most 1: write {:g}% or {:g}",
         *target.metric, *target.metric, *target.metric / 100);
}

void add_times_to_target(json& arms, const std::vector<std::vector<FinishedRun>>& runs,
                         const Target& target) {
  const bool larger = runs.front().front().summary.value("metric", "") == "accuracy";
  for (std::size_t i = 0; i < runs.size(); ++i)
    add_first(arms[i], runs[i], "target", [&](const Validated& point) {
      if (target.loss) return point.loss <= *target.loss;
      return larger ? point.metric >= *target.metric : point.metric <= *target.metric;
    });
}

Gate::Gate(const std::string& text) : text_(text) {
  static const std::map<std::string, std::string> kFields = {
      {"loss", "final_loss_mean"},
      {"metric", "final_metric_mean"},
      {"accuracy", "final_metric_mean"},
      {"perplexity", "final_metric_mean"},
      {"bits", "bits_per_parameter_per_step"},
      {"rounds", "rounds"},
      {"step_seconds", "step_seconds"}};
  static const std::regex kForm(R"(\s*([a-z_]+)\s*([<>])\s*([+-]?)([0-9]*\.?[0-9]+)(%?)\s*)");
  std::smatch match;
  const bool fits = std::regex_match(text, match, kForm);
  const auto field = fits ? kFields.find(match[1].str()) : kFields.end();
  if (field == kFields.end())
    fail(Code::kInvalidArgument,
         "--fail-if \"{}\": write for example \"loss>+1%\", \"accuracy<-0.005\" or \"bits>2\"; "
         "there are loss, metric, "
         "accuracy, perplexity, bits, rounds and step_seconds",
         text);
  field_ = field->second;
  above_ = match[2] == ">";
  relative_ = match[3].length() > 0 || match[5].length() > 0;
  percent_ = match[5].length() > 0;
  number_ = std::stod(match[4].str()) * (match[3] == "-" ? -1 : 1);
}

std::string Gate::violation(const json& arm, const json& baseline) const {
  const double value = arm.at(field_).get<double>(), base = baseline.at(field_).get<double>();
  double limit = number_;
  if (relative_) limit = percent_ ? base + std::abs(base) * number_ / 100 : base + number_;
  // A value that is no number fails.
  if (above_ ? value <= limit : value >= limit) return {};
  return fmt::format("{}: {} is {:.6g}, the limit of \"{}\" is {:.6g} (baseline {:.6g})",
                     arm.at("optimizer").get<std::string>(), field_, value, text_, limit, base);
}

}  // namespace laconic::app::training
