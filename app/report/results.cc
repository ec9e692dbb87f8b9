#include "app/report/results.h"

#include <cmath>
#include <map>
#include <utility>

#include "app/report/file.h"
#include "app/timing.h"
#include "laconic/checkpoint/file.h"
#include "laconic/core/error.h"

namespace laconic::app::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json read_summary(const fs::path& folder) {
  const fs::path path = folder / "summary.json";
  if (!fs::exists(path))
    fail(Code::kFile,
         "{} has no summary.json: name a folder that laconic train or laconic compare wrote to its "
         "end",
         folder.string());
  try {
    const std::string text = read_text(path);
    check_nesting(text, path);
    json summary = json::parse(text);
    if (summary.is_object()) return summary;
  } catch (const json::exception& error) {
    fail(Code::kCorrupt, "{} is no JSON: {}", path.string(), error.what());
  }
  fail(Code::kCorrupt, "{} is JSON, but not an object", path.string());
}

// "." and "runs/" have a last name too.
std::string name_of(const fs::path& folder) {
  const fs::path whole = fs::absolute(folder).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

Run read_run(const fs::path& folder) {
  const fs::path path = folder / "metrics.jsonl";
  if (!fs::exists(path))
    fail(Code::kFile, "{} has no metrics.jsonl, which laconic train writes beside summary.json",
         folder.string());
  return {name_of(folder), read_metrics(path)};
}

double median(const std::vector<StepRecord>& records, double StepRecord::*field) {
  std::vector<double> values;
  for (const StepRecord& record : records) values.push_back(record.*field);
  return Sample(std::move(values)).median;
}

Arm single_run(const fs::path& folder, json summary) {
  Run run = read_run(folder);
  for (const std::string field : {"final_loss", "final_metric"})
    if (summary.contains(field)) summary[field + "_mean"] = summary[field];
  summary["step_seconds"] = median(run.records, &StepRecord::step_seconds);
  summary["exposed_seconds"] = median(run.records, &StepRecord::exposed_seconds);
  std::string name = text_of(summary, "optimizer");
  return {std::move(name), std::move(summary), {std::move(run)}};
}

Section comparison(const fs::path& folder, json summary) {
  Section section;
  try {
    for (const json& arm : summary.at("arms")) {
      section.arms.push_back({text_of(arm, "optimizer"), arm, {}});
      for (const json& run : arm.at("runs"))
        section.arms.back().runs.push_back(read_run(folder / run.get<std::string>()));
      if (section.arms.back().name == text_of(summary, "baseline"))
        section.baseline = section.arms.size() - 1;
    }
  } catch (const json::exception& error) {
    fail(Code::kCorrupt, "{} is no summary of a comparison: {}", (folder / "summary.json").string(),
         error.what());
  }
  section.summary = std::move(summary);
  return section;
}

// Names in a legend are of use only when they differ: runs of one optimizer are distinguished by their
// seeds, else by their folders.
void tell_apart(std::vector<Arm>& arms) {
  const auto append_to_twins = [&](const auto& suffix) {
    std::map<std::string, int> count;
    for (const Arm& arm : arms) ++count[arm.name];
    for (Arm& arm : arms)
      if (count[arm.name] > 1) arm.name += suffix(arm);
  };
  append_to_twins([](const Arm& arm) {
    const auto seed = number_of(arm.summary, "seed");
    return seed ? fmt::format(", seed {:.0f}", *seed) : std::string();
  });
  append_to_twins([](const Arm& arm) { return fmt::format(" ({})", arm.runs.front().name); });
}

}  // namespace

std::vector<Section> read_results(const std::vector<fs::path>& folders) {
  std::vector<Section> sections;
  std::map<std::pair<std::string, std::string>, std::size_t> of_runs;  // task, model -> section
  for (const fs::path& folder : folders) {
    json summary = read_summary(folder);
    if (summary.contains("arms")) {
      sections.push_back(comparison(folder, std::move(summary)));
      continue;
    }
    const auto [place, is_new] =
        of_runs.try_emplace({text_of(summary, "task"), text_of(summary, "model")}, sections.size());
    if (is_new) sections.push_back({summary, {}, {}});
    sections[place->second].arms.push_back(single_run(folder, std::move(summary)));
  }
  for (Section& section : sections) tell_apart(section.arms);
  return sections;
}

std::optional<double> number_of(const json& summary, const char* field) {
  const auto found = summary.find(field);
  if (found == summary.end() || !found->is_number()) return {};
  const auto number = found->get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::string text_of(const json& summary, const char* field) {
  const auto found = summary.find(field);
  return found == summary.end() || !found->is_string() ? "" : found->get<std::string>();
}

}  // namespace laconic::app::report
