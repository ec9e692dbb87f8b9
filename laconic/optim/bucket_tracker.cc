#include "laconic/optim/bucket_tracker.h"

#include <algorithm>
#include <utility>

namespace laconic::inline optim {

BucketTracker::BucketTracker(std::span<const NamedRange> ranges,
                             std::span<const NamedRange> buckets)
    : ranges_of_(buckets.size()), buckets_of_(ranges.size()) {
  for (std::size_t b = 0; b < buckets.size(); ++b)
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const NamedRange &range = ranges[i], &bucket = buckets[b];
      if (range.count == 0 || range.begin >= bucket.begin + bucket.count ||
          bucket.begin >= range.begin + range.count)
        continue;
      ranges_of_[b].push_back(i);
      buckets_of_[i].push_back(static_cast<int>(b));
    }
  begin(std::vector<int>(ranges.size()));
}

void BucketTracker::begin(std::vector<int> expected, bool waits_for_all) {
  expected_ = std::move(expected);
  arrivals_.assign(expected_.size(), 0);
  released_.assign(expected_.size(), false);
  held_by_.clear();
  for (const auto& inside : ranges_of_)
    held_by_.push_back(static_cast<std::size_t>(std::ranges::count_if(
        inside, [&](std::size_t i) { return waits_for_all || expected_[i] > 0; })));
  any_released_ = started_ = false;
}

bool BucketTracker::arrived(std::size_t range) { return ++arrivals_[range] == expected_[range]; }

std::vector<int> BucketTracker::release(std::size_t range) {
  std::vector<int> complete;
  if (!std::exchange(any_released_, true))
    for (std::size_t b = 0; b < held_by_.size(); ++b)
      if (held_by_[b] == 0) complete.push_back(static_cast<int>(b));
  released_[range] = true;
  for (const int b : buckets_of_[range])
    if (--held_by_[static_cast<std::size_t>(b)] == 0) complete.push_back(b);
  for (const int b : complete)
    for (const std::size_t i : ranges_of_[static_cast<std::size_t>(b)]) released_[i] = true;
  started_ = started_ || !complete.empty();
  return complete;
}

std::vector<std::size_t> BucketTracker::missing() const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < expected_.size(); ++i)
    if (arrivals_[i] < expected_[i]) all.push_back(i);
  return all;
}

}  // namespace laconic::inline optim
