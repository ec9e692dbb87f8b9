#include "app/report/metrics.h"

#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>

#include "laconic/checkpoint/file.h"
#include "laconic/core/error.h"

namespace laconic::app::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Each field once, for the writer and for the reader.
template <typename Record, typename Visit>
void for_each_field(Record& record, const Visit& visit) {
  visit("step", record.step);
  visit("loss", record.loss);
  visit("lr", record.lr);
  visit("kind", record.kind);
  visit("bytes", record.bytes);
  visit("bytes_total", record.bytes_total);
  visit("seconds", record.seconds);
  visit("step_seconds", record.step_seconds);
  visit("exposed_seconds", record.exposed_seconds);
  visit("waited_seconds", record.waited_seconds);
  visit("bad_blocks", record.bad_blocks);
  visit("residual_ratio", record.residual_ratio);
  visit("exchange", record.exchange);
  visit("validation_loss", record.validation_loss);
  visit("validation_metric", record.validation_metric);
}

struct ToJson {
  ordered_json& json;

  template <typename T>
  void operator()(const char* name, const T& value) const {
    json[name] = value;
  }
  void operator()(const char* name, const std::optional<double>& value) const {
    if (value) json[name] = *value;
  }
  void operator()(const char* name, const std::string& value) const {
    if (!value.empty()) json[name] = value;
  }
};

struct FromJson {
  const ordered_json& json;

  template <typename T>
  void operator()(const char* name, T& value) const {
    json.at(name).get_to(value);
  }
  template <std::integral T>
  void operator()(const char* name, T& value) const {
    const ordered_json& found = json.at(name);
    if (!found.is_number_integer()) fail(Code::kCorrupt, "`{}` is not a whole number", name);
    found.get_to(value);
  }
  void operator()(const char* name, double& value) const {
    const ordered_json& found = json.at(name);
    value = found.is_null() ? std::numeric_limits<double>::quiet_NaN() : found.get<double>();
  }
  void operator()(const char* name, std::string& value) const {
    value = json.value(name, std::string());
  }
  void operator()(const char* name, std::optional<double>& value) const {
    if (json.contains(name)) (*this)(name, value.emplace());
  }
};

std::string to_line(const StepRecord& record) {
  ordered_json json;
  for_each_field(record, ToJson{json});
  return json.dump() + '\n';
}

StepRecord to_record(const std::string& line) {
  StepRecord record;
  const ordered_json json = ordered_json::parse(line);
  for_each_field(record, FromJson{json});
  return record;
}

const fs::path& cut_back(const fs::path& path, std::optional<std::int64_t> keep) {
  std::string kept;
  if (keep && fs::exists(path))
    for (const StepRecord& record : read_metrics(path))
      if (record.step <= *keep) kept += to_line(record);
  replace_text(path, kept);
  return path;
}

}  // namespace

double bits_per_parameter(double bytes, std::uint64_t parameters, int ranks) noexcept {
  if (ranks < 2 || parameters == 0) return 0;
  return 8 * bytes / (static_cast<double>(parameters) * 2 * (ranks - 1) / ranks);
}

MetricsFile::MetricsFile(const fs::path& path, std::optional<std::int64_t> keep)
    : file_(cut_back(path, keep)) {}

void MetricsFile::append(const StepRecord& record) { file_.append(to_line(record)); }

std::vector<StepRecord> read_metrics(const fs::path& path) {
  const std::string text = read_text(path);
  std::vector<StepRecord> records;
  for (std::size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    try {
      const std::string line = text.substr(begin, end - begin);
      check_nesting(line, path);
      records.push_back(to_record(line));
    } catch (const std::exception& error) {
      if (end == std::string::npos) break;  // torn by a crash
      fail(Code::kCorrupt, "{}, line {} is no record of a step: {}", path.string(), number,
           error.what());
    }
    if (end == std::string::npos) break;
    begin = end + 1;
  }
  return records;
}

}  // namespace laconic::app::report
