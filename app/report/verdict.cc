#include "app/report/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "app/report/format.h"
#include "app/report/results.h"

namespace laconic::app::report {
namespace {

using nlohmann::json;

constexpr double kNearEnough = 0.1;  // of the time that was asked for

struct Standing {
  std::string name;
  double quality, spread, steps, seconds;
  bool coded, baseline;
};

// " at 100 Mbit/s" of "100mbit,1ms".
std::string link_text(const std::string& emulate) {
  if (emulate.starts_with('@') || emulate.find('/') != std::string::npos)
    return " on links of " + emulate;
  const std::string rate = emulate.substr(0, emulate.find(','));
  const std::size_t unit = rate.find_first_not_of("0123456789.e+");
  if (emulate.empty() || unit == std::string::npos || unit == 0) return "";
  std::string name = rate.substr(unit);
  if (name != "bit") name[0] = static_cast<char>(std::toupper(name[0]));
  std::string text =
      fmt::format(" at {} {}/s", rate.substr(0, unit), name == "Kbit" ? "kbit" : name);
  if (const std::size_t comma = emulate.find(','); comma != std::string::npos)
    text += " and a latency of " + emulate.substr(comma + 1);
  return text;
}

std::vector<Standing> arms_of(const json& comparison) {
  std::vector<Standing> arms;
  const std::string baseline = text_of(comparison, "baseline");
  for (const json& arm : comparison.at("arms")) {
    const auto quality = number_of(arm, "final_metric_mean"), steps = number_of(arm, "steps");
    if (!quality || !steps) continue;
    const std::string name = text_of(arm, "optimizer");
    arms.push_back({.name = name,
                    .quality = *quality,
                    .spread = number_of(arm, "final_metric_spread").value_or(0),
                    .steps = *steps,
                    .seconds = number_of(arm, "training_seconds").value_or(0),
                    .coded = number_of(arm, "coded_rounds").value_or(0) > 0,
                    .baseline = name == baseline});
  }
  return arms;
}

std::string metric_of(const json& comparison) {
  const json& arms = comparison.at("arms");
  return arms.empty() ? "" : text_of(arms.front(), "metric");
}

bool is_accuracy(const std::string& metric) { return metric == "accuracy"; }

// The best of all, the baseline and the best coded one: the best first.
std::vector<Standing> worth_naming(std::vector<Standing> arms, bool larger_is_better) {
  std::ranges::stable_sort(arms, [&](const Standing& a, const Standing& b) {
    return larger_is_better ? a.quality > b.quality : a.quality < b.quality;
  });
  const auto coded = std::ranges::find(arms, true, &Standing::coded);
  const std::string best_coded = coded == arms.end() ? "" : coded->name;
  std::vector<Standing> named;
  for (const Standing& arm : arms)
    if (named.empty() || arm.baseline || arm.name == best_coded) named.push_back(arm);
  return named;
}

}  // namespace

std::string metric_text(const std::string& metric, double value) {
  return is_accuracy(metric) ? fmt::format("{:.1f} %", 100 * value) : fmt::format("{:.4g}", value);
}

std::string verdict(const json& comparison) {
  const auto asked = number_of(comparison, "seconds_asked");
  if (!asked || !comparison.contains("arms")) return "";
  const std::string metric = metric_of(comparison);
  const std::vector<Standing> named = worth_naming(arms_of(comparison), is_accuracy(metric));
  if (named.size() < 2) return "";
  std::string text =
      fmt::format("In {}{} ", human_seconds(*asked), link_text(text_of(comparison, "emulate")));
  for (std::size_t i = 0; i < named.size(); ++i) {
    const Standing& arm = named[i];
    const std::string steps = human_number(arm.steps) + (arm.steps == 1 ? " step" : " steps");
    std::string reached = metric_text(metric, arm.quality);
    if (i == 0 && !is_accuracy(metric)) reached = fmt::format("a {} of {}", metric, reached);
    text += i == 0 ? fmt::format("{} took {} and reached {}", arm.name, steps, reached)
                   : fmt::format(", {} {} and {}", arm.name, steps, reached);
    if (arm.seconds > 0 && std::abs(arm.seconds - *asked) > kNearEnough * *asked)
      text += fmt::format(" (it used {})", human_seconds(arm.seconds));
  }
  const double apart = std::abs(named[0].quality - named[1].quality);
  if (apart <= std::max(named[0].spread, named[1].spread))
    text += ": no difference beyond the spread over seeds";
  else if (!named[0].coded)
    text += ": here exact exchanges were better";
  return text + ".";
}

std::string time_to_target(const json& comparison) {
  if (!comparison.contains("arms")) return "";
  const auto loss = number_of(comparison, "target_loss"),
             value = number_of(comparison, "target_metric");
  if (!loss && !value) return "";
  const std::string metric = metric_of(comparison);
  std::string text = loss ? fmt::format("A validation loss of {:.4g}", *loss)
                          : fmt::format("{} {} of {}", is_accuracy(metric) ? "An" : "A", metric,
                                        metric_text(metric, *value));
  const char* before = ": ";
  for (const json& arm : comparison.at("arms")) {
    const auto seconds = number_of(arm, "seconds_to_target"),
               steps = number_of(arm, "steps_to_target");
    text += before + text_of(arm, "optimizer");
    text += seconds && steps
                ? fmt::format(" after {} ({} steps)", human_seconds(*seconds), human_number(*steps))
                : std::string(" not reached");
    before = ", ";
  }
  return text + ".";
}

}  // namespace laconic::app::report
