#include "laconic/optim/choice.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "laconic/core/buffer.h"
#include "laconic/core/error.h"

namespace laconic::inline optim {
namespace {

constexpr std::size_t kShort = 16 << 10, kLong = 256 << 10;  // elements of a probe
constexpr int kRepeats = 3;
constexpr int kTrial = 5;  // steps of a trial; the first, which takes up residuals, is not counted
constexpr double kNear = 3;  // paths that the probe finds this much slower are not tried
constexpr int kWindow = 16, kWidestWindow = 32;
constexpr double kChange = 1.5;   // of the level, up or down, in two windows: the network changed
constexpr double kBetter = 0.97;  // a path must be faster by this to replace the configured one
constexpr double kClearly = 0.8;  // and for one bucket, to replace what all others take

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double total(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Each value becomes its largest over the ranks.
void take_largest(Transport& world, std::vector<double>& values) {
  std::vector<double> all;
  world.gather(std::span<const double>(values), all);
  for (std::size_t at = 0; at < all.size(); ++at)
    values[at % values.size()] = std::max(values[at % values.size()], all[at]);
}

}  // namespace

Choice::Choice(const OptimizerConfig& config, std::span<const Path> paths, const Nodes& nodes,
               const Nodes* flat, Device& device, std::vector<SwitchingMean*> means)
    : config_(config),
      paths_(paths),
      nodes_(nodes),
      flat_(flat),
      device_(device),
      means_(std::move(means)),
      taken_(means_.size()) {
  use_everywhere(0);
}

void Choice::decide() {
  if (means_.empty()) return;
  if (!probed_)
    probe();
  else if (!config_.strict)
    look();
  for (std::size_t i = 0; i < means_.size(); ++i) means_[i]->use(chosen_[i]);
}

// At the step before.
void Choice::look() {
  for (std::size_t i = 0; i < means_.size(); ++i) taken_[i].push_back(means_[i]->seconds());
  ++steps_;
  if (!to_try_.empty()) {
    if (steps_ == 1)
      for (auto& seconds : taken_) seconds.clear();
    if (steps_ == kTrial) try_next();
  } else if (steps_ >= window_) {
    watch();
  }
}

double Choice::time(const Path& path, std::size_t elements) {
  const auto mean = make_mean({.codec = path.codec,
                               .elements = elements,
                               .scale_block = config_.scale_block,
                               .scale_norm = config_.scale_norm,
                               .quant_block = config_.quant_block},
                              path.flat ? *flat_ : nodes_, device_);
  Buffer<float> values(elements);
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    std::fill(values.span().begin(), values.span().end(), 0.5F);
    const auto begin = std::chrono::steady_clock::now();
    mean->reduce(values.span());
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return *std::min_element(seconds.begin(), seconds.end());
}

// A line through two points for each path, and from it every bucket's time.
void Choice::probe() {
  probed_ = true;
  std::vector<double> times;
  for (const Path& path : paths_)
    for (const std::size_t elements : {kShort, kLong}) times.push_back(time(path, elements));
  take_largest(*nodes_.world, times);
  tried_.clear();
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const double slope = std::max(0.0, times[2 * i + 1] - times[2 * i]) / (kLong - kShort);
    Seconds predicted;
    for (const SwitchingMean* mean : means_)
      predicted.push_back(
          std::max(0.0, times[2 * i] + slope * (static_cast<double>(mean->elements()) - kShort)));
    tried_.emplace_back(i, std::move(predicted));
  }
  std::ranges::sort(tried_, {}, [](const auto& one) { return total(one.second); });
  to_try_.clear();
  for (const auto& one : tried_)
    if (total(one.second) <= kNear * total(tried_.front().second)) to_try_.push_back(one.first);
  settle();
  steps_ = 0;
  window_ = kWindow;
  level_ = 0;
  off_level_ = false;
  tried_.clear();
  if (config_.strict || to_try_.size() == 1) to_try_.clear();
  if (!to_try_.empty()) use_everywhere(to_try_.front());
}

void Choice::try_next() {
  tried_.emplace_back(to_try_.front(), measured());
  to_try_.erase(to_try_.begin());
  steps_ = 0;
  if (!to_try_.empty()) return use_everywhere(to_try_.front());
  settle();
}

// All take what was fastest in all, but for buckets that are clearly faster otherwise: a few steps
// carry no more information, and a mixture that chance made is slower than any of its parts.
void Choice::settle() {
  const auto& all = *std::ranges::min_element(tried_, {}, [](const auto& one) {
    return total(one.second) * (one.first == 0 ? kBetter : 1.0);
  });
  std::vector<std::size_t> best(means_.size(), all.first);
  for (std::size_t b = 0; b < means_.size(); ++b) {
    const auto least =
        std::ranges::min_element(tried_, {}, [b](const auto& one) { return one.second[b]; });
    if (least->second[b] < kClearly * all.second[b]) best[b] = least->first;
  }
  use(best);
}

void Choice::watch() {
  const Seconds now = measured();
  const double all = total(now);
  steps_ = 0;
  if (level_ == 0) {
    level_ = all;
    return;
  }
  const bool off = all > kChange * level_ || all * kChange < level_;
  if (!off) {
    off_level_ = false;
    window_ = std::min(2 * window_, kWidestWindow);
  } else if (!off_level_) {  // once may be chance
    off_level_ = true;
    window_ = kWindow;
  } else {
    probe();
  }
}

void Choice::use(const std::vector<std::size_t>& chosen) {
  chosen_ = chosen;
  described_.clear();
  for (const bool exact : {true, false})
    for (std::size_t path = 0; path < paths_.size(); ++path) {
      const auto count = std::ranges::count(chosen_, path);
      if (paths_[path].exact() != exact || count == 0) continue;
      if (!described_.empty()) described_ += ", ";
      described_ +=
          count == std::ssize(chosen_)
              ? paths_[path].name
              : fmt::format("{} in {} of {} buckets", paths_[path].name, count, chosen_.size());
    }
}

Choice::Seconds Choice::measured() {
  Seconds medians;
  for (auto& seconds : taken_) {
    medians.push_back(median(seconds));
    seconds.clear();
  }
  take_largest(*nodes_.world, medians);
  return medians;
}

}  // namespace laconic::inline optim
