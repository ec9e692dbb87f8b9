#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace laconic::inline transport {

// When one rank computed, encoded, waited for the wire and decoded, as spans of time. Off, it costs
// a look at a flag per span. Thread-safe.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  // Rows of the picture. Messages that travel at the same time have rows of their own from kWire on.
  enum Row : int { kBackward, kExchange, kWire };

  Timeline();
  // What was noted before is dropped.
  void start();
  void stop() noexcept { on_.store(false, std::memory_order_relaxed); }
  bool on() const noexcept { return on_.load(std::memory_order_relaxed); }

  // Of the exchange whose spans follow, from now on.
  void set_bucket(int bucket) noexcept { bucket_.store(bucket, std::memory_order_relaxed); }
  int bucket() const noexcept { return bucket_.load(std::memory_order_relaxed); }
  void set_step(std::int64_t step) noexcept { step_.store(step, std::memory_order_relaxed); }

  // `name` is a literal. Nothing is kept beyond the first million.
  void add(const char* name, int row, int bucket, Time begin, Time end);

  // Chrome's trace format: one process, `rank`, whose threads are the rows; microseconds since 1970.
  std::string json(int rank) const;

 private:
  struct Span {
    const char* name;
    int row, bucket;
    std::int64_t step;
    Time begin, end;
  };

  std::chrono::system_clock::duration since_1970_;  // what the clock's zero stands for
  std::atomic<bool> on_ = false;
  std::atomic<int> bucket_ = -1;
  std::atomic<std::int64_t> step_ = 0;
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

// Notes the time that it lives; `timeline` may be null.
class TimeSpan {
 public:
  TimeSpan(Timeline* timeline, const char* name, int row)
      : timeline_(timeline && timeline->on() ? timeline : nullptr), name_(name), row_(row) {
    if (timeline_) begin_ = Timeline::Clock::now();
  }
  ~TimeSpan() {
    if (timeline_) timeline_->add(name_, row_, timeline_->bucket(), begin_, Timeline::Clock::now());
  }
  TimeSpan(const TimeSpan&) = delete;
  TimeSpan& operator=(const TimeSpan&) = delete;

 private:
  Timeline* timeline_;
  const char* name_;
  int row_;
  Timeline::Time begin_;
};

}  // namespace laconic::inline transport
