#include "app/report/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "app/report/format.h"
#include "app/report/text_table.h"

namespace laconic::app::report {
namespace {

constexpr double kRewriteSeconds = 0.2, kSilentSeconds = 5, kMarkSeconds = 5;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A longer line would wrap, and only its last row could be rewritten. Counts characters, not bytes.
std::string cut(const std::string& text, std::size_t width) {
  std::size_t characters = 0, i = 0;
  for (; i < text.size(); ++i) {
    const bool starts = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (starts && ++characters > width) break;
  }
  return text.substr(0, i);
}

}  // namespace

bool is_terminal(std::FILE* out) noexcept { return ::isatty(::fileno(out)) == 1; }

Progress::Progress(ProgressConfig config) : config_(std::move(config)) {
  if (!config_.now) config_.now = steady_seconds;
  begin_ = older_ = newer_ = {config_.first_step, config_.now()};
}

void Progress::update(const StepRecord& record) {
  const double now = config_.now();
  latest_ = record;
  if (now - newer_.seconds >= kMarkSeconds) {
    older_ = newer_;
    newer_ = {record.step, now};
  }
  if (!is_due(now)) return;
  written_ = now;
  write(text());
}

bool Progress::is_due(double now) const {
  if (shown_ < 0 || latest_.step >= config_.steps) return true;
  if (config_.terminal) return now - written_ >= kRewriteSeconds;
  const auto tenths = [&](std::int64_t step) { return step * 10 / config_.steps; };
  return now - written_ >= kSilentSeconds || tenths(latest_.step) > tenths(shown_);
}

double Progress::rate(double now) const {
  return static_cast<double>(latest_.step - older_.step) / std::max(now - older_.seconds, 1e-9);
}

std::string Progress::text() const {
  const double now = config_.now(), rate = this->rate(now);
  const auto step = static_cast<double>(std::max<std::int64_t>(latest_.step, 1));
  const double bytes = static_cast<double>(latest_.bytes_total) / step;
  std::string text = fmt::format("step {:>{}}/{}  loss {:.4f}  {} steps/s", latest_.step,
                                 std::to_string(config_.steps).size(), config_.steps, latest_.loss,
                                 human_number(rate));
  const auto left = static_cast<double>(config_.steps - latest_.step);
  if (left <= 0)
    text += fmt::format("  took {}", human_seconds(now - begin_.seconds));
  else if (rate > 0)
    text += fmt::format("  {} left", human_seconds(left / rate));
  text += fmt::format("  {}/step", human_bytes(bytes));
  if (config_.ranks > 1)
    text += fmt::format("  {:.2f} bits/parameter",
                        bits_per_parameter(bytes, config_.parameters, config_.ranks));
  return text;
}

void Progress::write(const std::string& text) {
  if (config_.terminal)
    fmt::print(config_.out, "\r{}\x1b[K", cut(text, line_width(config_.out, 80) - 1));
  else
    fmt::print(config_.out, "{}\n", text);
  std::fflush(config_.out);
  open_ = config_.terminal;
  shown_ = latest_.step;
}

void Progress::say(std::string_view line) {
  if (open_) fmt::print(config_.out, "\r\x1b[K");
  fmt::print(config_.out, "{}\n", line);
  if (open_) write(text());
  std::fflush(config_.out);
}

void Progress::finish() {
  if (shown_ >= 0 && shown_ != latest_.step) write(text());
  if (open_) fmt::print(config_.out, "\n");
  std::fflush(config_.out);
  open_ = false;
}

}  // namespace laconic::app::report
