#include "laconic/optim/bucket_tracker.h"

#include <gtest/gtest.h>

namespace laconic {
namespace {

using Buckets = std::vector<int>;
using Ranges = std::vector<std::size_t>;

// Ranges a [0, 4), b [4, 10), empty at 10, c [10, 12); buckets [0, 6) and [6, 12).
BucketTracker two_buckets() {
  const std::vector<NamedRange> ranges = {{"a", 0, 4}, {"b", 4, 6}, {"empty", 10, 0}, {"c", 10, 2}};
  const std::vector<NamedRange> buckets = {{"first", 0, 6}, {"second", 6, 6}};
  return {ranges, buckets};
}
enum : std::size_t { kA, kB, kEmpty, kC };

TEST(BucketTracker, ABucketIsCompleteWithItsLastRange) {
  BucketTracker tracker = two_buckets();
  tracker.begin({1, 1, 1, 1});
  EXPECT_TRUE(tracker.arrived(kC));
  EXPECT_EQ(tracker.release(kC), Buckets{});
  EXPECT_FALSE(tracker.started());
  EXPECT_TRUE(tracker.arrived(kA));
  EXPECT_EQ(tracker.release(kA), Buckets{});
  EXPECT_TRUE(tracker.arrived(kB));
  EXPECT_EQ(tracker.release(kB), (Buckets{0, 1}));  // it lies in both
  EXPECT_TRUE(tracker.started());
}

TEST(BucketTracker, ARangeWithoutElementsHoldsNothingBack) {
  BucketTracker tracker = two_buckets();
  EXPECT_EQ(tracker.inside(0), (Ranges{kA, kB}));
  EXPECT_EQ(tracker.inside(1), (Ranges{kB, kC}));
  tracker.begin({1, 1, 1, 1});
  EXPECT_EQ(tracker.release(kB), Buckets{});
  EXPECT_EQ(tracker.release(kC), Buckets{1});
  EXPECT_FALSE(tracker.released(kEmpty));
  EXPECT_EQ(tracker.release(kEmpty), Buckets{});
}

TEST(BucketTracker, GradientsOfSeveralPassesAreCounted) {
  BucketTracker tracker = two_buckets();
  tracker.begin({2, 1, 0, 2});
  EXPECT_FALSE(tracker.arrived(kA));
  EXPECT_TRUE(tracker.arrived(kA));
  EXPECT_FALSE(tracker.arrived(kA));  // one too many
  EXPECT_FALSE(tracker.arrived(kC));
  EXPECT_EQ(tracker.arrivals(), (std::vector<int>{3, 0, 0, 1}));
  EXPECT_EQ(tracker.missing(), (Ranges{kB, kC}));
  tracker.begin({1, 1, 1, 1});
  EXPECT_EQ(tracker.arrivals(), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(tracker.missing(), (Ranges{kA, kB, kEmpty, kC}));
}

TEST(BucketTracker, ARangeThatExpectsNothingHoldsItsBucketBackOrNot) {
  BucketTracker tracker = two_buckets();
  tracker.begin({0, 1, 0, 1});
  EXPECT_EQ(tracker.release(kB), Buckets{});
  EXPECT_EQ(tracker.release(kC), Buckets{1});  // the first bucket waits for a
  tracker.begin({0, 1, 0, 1}, false);
  EXPECT_EQ(tracker.release(kB), Buckets{0});
  EXPECT_TRUE(tracker.released(kA));  // its bucket has started: a gradient would come too late
  EXPECT_FALSE(tracker.released(kC));
}

TEST(BucketTracker, ABucketThatWaitsForNothingStartsOnceWithTheFirstRelease) {
  BucketTracker tracker = two_buckets();
  tracker.begin({1, 0, 0, 0}, false);
  EXPECT_FALSE(tracker.started());
  EXPECT_EQ(tracker.release(kA), (Buckets{1, 0}));
  EXPECT_EQ(tracker.release(kEmpty), Buckets{});
}

TEST(BucketTracker, AStepBeginsWithNothingReleased) {
  BucketTracker tracker = two_buckets();
  tracker.begin({1, 1, 1, 1});
  for (const std::size_t range : {kA, kB, kC}) tracker.release(range);
  ASSERT_TRUE(tracker.started() && tracker.released(kB));
  tracker.begin({1, 1, 1, 1});
  EXPECT_FALSE(tracker.started() || tracker.released(kB));
  EXPECT_EQ(tracker.release(kA), Buckets{});
  EXPECT_EQ(tracker.release(kB), Buckets{0});
}

}  // namespace
}  // namespace laconic
