#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/report/file.h"

// What a run writes down: one JSON object a step in metrics.jsonl. docs/reference/metrics.md has the fields.
namespace laconic::app::report {

struct StepRecord {
  std::int64_t step = 0;
  double loss = 0;  // of training, the mean over ranks; a loss that is not finite is null on disk
  double lr = 0;
  std::string kind = {};    // dense, coded, silent, nothing or skipped
  std::uint64_t bytes = 0;  // sent by one rank in this step
  std::uint64_t bytes_total = 0;
  double seconds = 0;  // of training since the start, without validation
  double step_seconds = 0;
  double exposed_seconds = 0;  // from the end of backward to the end of the step
  std::optional<double> waited_seconds =
      {};  // of it, for an exchange that began in an earlier step
  std::int64_t bad_blocks = 0;
  std::optional<double> residual_ratio = {};
  std::string exchange = {};  // where there is a choice: coded, flat, dense, or how many buckets
  std::optional<double> validation_loss = {}, validation_metric = {};
};

// Bits per parameter of so many bytes that one rank sent, as docs/explanation/algorithms.md defines it. 0 for
// one rank, which sends nothing.
double bits_per_parameter(double bytes, std::uint64_t parameters, int ranks) noexcept;

// Appends to a metrics.jsonl; errors and durability are those of AppendedFile. One thread at a time.
class MetricsFile {
 public:
  // Starts anew, or keeps the records up to the step `keep` of what is there (which may be
  // nothing). The file that was there stays whole until the shorter one is.
  explicit MetricsFile(const std::filesystem::path& path, std::optional<std::int64_t> keep = {});
  void append(const StepRecord& record);
  void close() { file_.close(); }

 private:
  AppendedFile file_;
};

// All records of a metrics.jsonl. A last line that a crash tore is left out; any other line that is
// no record is Error(kCorrupt) with its number.
std::vector<StepRecord> read_metrics(const std::filesystem::path& path);

}  // namespace laconic::app::report
