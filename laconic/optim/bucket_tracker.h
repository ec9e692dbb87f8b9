#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "laconic/optim/optimizer.h"

namespace laconic::inline optim {

// Which buckets of a model are complete while the backward pass still runs. A range (a parameter)
// lies in one bucket or several. Within a step it expects a number of gradients; when they have
// come and are final the caller releases it, and a bucket whose ranges are all released is
// complete. Nothing is started or copied here, only counted. One thread at a time.
class BucketTracker {
 public:
  // Ranges without elements lie in no bucket.
  BucketTracker(std::span<const NamedRange> ranges, std::span<const NamedRange> buckets);

  // A step begins in which range i expects expected[i] gradients. Where `waits_for_all` is false, a
  // range that expects none holds no bucket back. REQUIRES: one number per range.
  void begin(std::vector<int> expected, bool waits_for_all = true);

  // The range got a gradient; true: the last one that it expects.
  bool arrived(std::size_t range);
  // The range is final as it is now. Returns the buckets that are complete, which count as started;
  // buckets that wait for nothing come with the first release. REQUIRES: not released.
  std::vector<int> release(std::size_t range);
  // The range was released, or a bucket of it has started: a further gradient comes too late.
  bool released(std::size_t range) const { return released_[range]; }

  // The ranges of a bucket.
  const std::vector<std::size_t>& inside(int bucket) const {
    return ranges_of_[static_cast<std::size_t>(bucket)];
  }
  // Whether a bucket has started in this step.
  bool started() const noexcept { return started_; }
  // Gradients that each range got in this step.
  const std::vector<int>& arrivals() const noexcept { return arrivals_; }
  // Ranges with fewer gradients than they expect.
  std::vector<std::size_t> missing() const;

 private:
  std::vector<std::vector<std::size_t>> ranges_of_;  // of each bucket
  std::vector<std::vector<int>> buckets_of_;         // of each range
  std::vector<int> expected_, arrivals_;             // of each range
  std::vector<bool> released_;
  std::vector<std::size_t> held_by_;  // of each bucket: the ranges that it waits for
  bool any_released_ = false, started_ = false;
};

}  // namespace laconic::inline optim
