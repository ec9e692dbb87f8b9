#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/report/metrics.h"

// What lies in the folders of runs and comparisons, read for the report. docs/reference/metrics.md has the
// fields of the summaries; one that is missing is shown as missing.
namespace laconic::app::report {

struct Run {
  std::string name;
  std::vector<StepRecord> records;
};

// One way of training, under one or several seeds.
struct Arm {
  std::string name;
  nlohmann::json summary;  // with the fields of a comparison's arm, of a single run too
  std::vector<Run> runs;
};

// Arms that are shown together: a comparison, or single runs of one model on one task.
struct Section {
  nlohmann::json summary;  // of the comparison; of its first run otherwise
  std::vector<Arm> arms;
  std::optional<std::size_t> baseline;  // index of an arm
};

// In the order of the folders. Error(kFile) that names what was expected when a folder has no
// summary.json or metrics.jsonl, Error(kCorrupt) when one of them is not what it should be.
std::vector<Section> read_results(const std::vector<std::filesystem::path>& folders);

// A field of a summary: nothing when it is missing, null, not finite or of another type.
std::optional<double> number_of(const nlohmann::json& summary, const char* field);
std::string text_of(const nlohmann::json& summary, const char* field);

}  // namespace laconic::app::report
