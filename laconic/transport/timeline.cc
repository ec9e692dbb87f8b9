#include "laconic/transport/timeline.h"

#include <iterator>
#include <set>

#include "laconic/core/error.h"

namespace laconic::inline transport {
namespace {

constexpr std::size_t kMost = 1'000'000;

std::string name_of(int row) {
  if (row == Timeline::kBackward) return "backward";
  if (row == Timeline::kExchange) return "encode, combine, decode";
  return fmt::format("wire {}", row - Timeline::kWire);
}

}  // namespace

Timeline::Timeline()
    : since_1970_(std::chrono::system_clock::now().time_since_epoch() -
                  std::chrono::duration_cast<std::chrono::system_clock::duration>(
                      Clock::now().time_since_epoch())) {}

void Timeline::start() {
  const std::lock_guard lock(mutex_);
  spans_.clear();
  on_.store(true, std::memory_order_relaxed);
}

void Timeline::add(const char* name, int row, int bucket, Time begin, Time end) {
  const std::lock_guard lock(mutex_);
  if (!on() || spans_.size() >= kMost) return;
  spans_.push_back({name, row, bucket, step_.load(std::memory_order_relaxed), begin, end});
}

std::string Timeline::json(int rank) const {
  const std::lock_guard lock(mutex_);
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  const auto out = std::back_inserter(text);
  fmt::format_to(out,
                 R"({{"ph": "M", "name": "process_name", "pid": {0}, "tid": 0, )"
                 R"("args": {{"name": "rank {0}"}}}})",
                 rank);
  std::set<int> rows;
  for (const Span& one : spans_) rows.insert(one.row);
  for (const int row : rows)
    fmt::format_to(out,
                   ",\n"
                   R"({{"ph": "M", "name": "thread_name", "pid": {}, "tid": {}, )"
                   R"("args": {{"name": "{}"}}}})",
                   rank, row, name_of(row));
  using Microseconds = std::chrono::duration<double, std::micro>;
  for (const Span& one : spans_)
    fmt::format_to(out,
                   ",\n"
                   R"({{"ph": "X", "name": "{}", "cat": "laconic", "pid": {}, "tid": {}, )"
                   R"("ts": {:.3f}, "dur": {:.3f}, "args": {{"step": {}, "bucket": {}}}}})",
                   one.name, rank, one.row,
                   Microseconds(one.begin.time_since_epoch() + since_1970_).count(),
                   Microseconds(one.end - one.begin).count(), one.step, one.bucket);
  text += "\n]}\n";
  return text;
}

}  // namespace laconic::inline transport
