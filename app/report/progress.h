#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "app/report/metrics.h"

namespace laconic::app::report {

struct ProgressConfig {
  std::FILE* out = stdout;
  bool terminal = false;        // one line, rewritten; otherwise plain lines, few of them
  std::int64_t first_step = 0;  // where a resumed run starts
  std::int64_t steps = 0;       // the step that is the last one
  std::uint64_t parameters = 0;
  int ranks = 1;
  std::function<double()> now = {};  // seconds; the steady clock when empty
};

bool is_terminal(std::FILE* out) noexcept;

// Shows how far a run is: step, loss, rate, time left, bytes and bits per parameter of a step on
// average so far. At most 5 times a second on a terminal; else the first step, the last, each tenth
// of the way, and when 5 seconds were silent. One thread at a time.
class Progress {
 public:
  explicit Progress(ProgressConfig config);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { finish(); }

  void update(const StepRecord& record);
  // A line that stays, above the one that is rewritten.
  void say(std::string_view line);
  // Ends the line that is rewritten, with its newest values. May be called again.
  void finish();

 private:
  bool is_due(double now) const;
  double rate(double now) const;
  std::string text() const;
  void write(const std::string& text);

  struct Mark {
    std::int64_t step = 0;
    double seconds = 0;
  };

  ProgressConfig config_;
  StepRecord latest_;
  Mark begin_, older_, newer_;  // the rate is that since `older_`, a few seconds ago
  double written_ = 0;
  std::int64_t shown_ = -1;
  bool open_ = false;  // a line that is rewritten stands on the terminal
};

}  // namespace laconic::app::report
