#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "app/report/metrics.h"

namespace laconic::app::report {

// A record as a step of 0.1 s that sends 1,000 bytes leaves it.
inline StepRecord record_of(std::int64_t step) {
  StepRecord record{.step = step, .loss = 2.0 / static_cast<double>(step), .lr = 1e-3};
  record.kind = "coded";
  record.bytes = 1000;
  record.bytes_total = 1000 * static_cast<std::uint64_t>(step);
  record.seconds = 0.1 * static_cast<double>(step);
  record.step_seconds = 0.1;
  record.exposed_seconds = 0.02;
  record.residual_ratio = 0.5;
  return record;
}

inline void write_steps(const std::filesystem::path& path, std::int64_t steps) {
  MetricsFile file(path);
  for (std::int64_t step = 1; step <= steps; ++step) file.append(record_of(step));
  file.close();
}

inline std::size_t count(const std::string& text, const std::string& word) {
  std::size_t n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

}  // namespace laconic::app::report
