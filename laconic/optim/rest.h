#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "laconic/device/memory.h"
#include "laconic/optim/optimizer.h"
#include "laconic/optim/policy.h"

namespace laconic::inline optim {

// The part of one of the model's ranges that lies in a bucket; `begin` counts from the bucket's
// first element.
struct Piece {
  std::size_t range = 0, begin = 0, count = 0;
};

// A stretch of a bucket whose ranges rested in `steps` steps so far.
struct Lag {
  std::size_t begin = 0, count = 0;
  std::int64_t steps = 0;
};

// Which ranges rest in a step: those that have no gradient on any rank (on local steps: on this
// rank; at a sync: on any rank since the last sync).
//
// Ranks agree bucket by bucket, in the order of the exchanges. Each announces in one byte whether
// it misses a gradient in the bucket; only when all do, they compare which. A rank that misses none
// in all buckets that are left announces that, and the step needs no further round. A rank that
// misses none in the bucket knows the outcome, and may hear the others later.
//
// absent() and all_known() are called by the thread that drives the step, of() and agree() by the
// one that works on buckets.
class Rest {
 public:
  // Both outlive the object. `fragments` of the model are exchanged at steps of their own.
  Rest(const Model& model, Transport& transport, int fragments);
  void add_bucket(std::size_t begin, std::size_t count, int fragment);

  void begin();
  void absent(std::size_t range);
  // No absent() follows in this step.
  void all_known() noexcept { all_known_.store(true); }

  // The pieces of the bucket that rest; valid until the next call. Collective unless `local`.
  // `has_next`: the next bucket's gradient is here already. With it all_have_next() follows, and
  // nobody else uses the transport until then.
  std::span<const Piece> of(int bucket, bool local, std::optional<bool> has_next = {});
  // In its place, where pieces are compared for all buckets at once. Collective.
  void announce(bool has_next);
  // After either: all ranks had the next bucket, or some rank has all that are left.
  bool all_have_next();
  // After the last bucket's exchange: waits until the others have heard this rank. Not before, since
  // they may wait for that exchange first.
  void release();
  // For steps whose buckets are all exchanged before anything is applied: this rank misses some
  // gradient; and, if all ranks do, which of them all miss. Then pieces(bucket) is known.
  bool misses_any() const noexcept;
  void agree();
  std::span<const Piece> pieces(int bucket);
  // The pieces of the bucket that have no gradient here in this step; valid until the next call.
  std::span<const Piece> absent_in(int bucket);
  // All pieces of the bucket.
  std::span<const Piece> all_of(int bucket) const noexcept {
    return buckets_[static_cast<std::size_t>(bucket)].pieces;
  }
  // Between steps: of(bucket, false) then gives what had no gradient since the last exchange.
  void begin_between_steps();
  void synchronized();

  // Once every bucket's pieces are known.
  bool rests(std::size_t range) const noexcept { return resting_[range] != 0; }
  // Exchanges before this step in which the range rested.
  std::int64_t rested(std::size_t range) const noexcept {
    return static_cast<std::int64_t>(rested_[range]);
  }

  // The step was taken.
  void done(const Step& step);
  void other_ranks() noexcept;
  // Empty: nothing ever rested in the bucket.
  std::span<const Lag> lags(int bucket);
  std::vector<State> state();

 private:
  struct Bucket {
    int fragment = 0;
    std::vector<Piece> pieces;
    std::vector<Lag> lags;
    std::int64_t lags_of = -1;  // the value of changes_ that `lags` was made for
  };

  std::size_t place(int fragment, std::size_t range) const noexcept {
    return static_cast<std::size_t>(fragment) * absent_.size() + range;
  }
  bool misses(const Bucket& bucket, std::size_t range, bool local) const noexcept {
    return absent_[range] != 0 && (local || touched_[place(bucket.fragment, range)] == 0);
  }
  bool misses(const Bucket& bucket, bool local) const noexcept;
  std::uint8_t announcement(int bucket) const noexcept;
  // False: nobody announces anything more in this step.
  bool announce(std::uint8_t what, bool has_next);
  void hear();
  // Of which buckets the pieces are, in turn.
  void compare(std::span<const Bucket> buckets);
  bool exchanged(const Step& step, int fragment) const noexcept {
    return step.exchanges() && (step.fragment == kAllFragments || step.fragment == fragment);
  }

  const Model& model_;
  Transport& transport_;
  const int fragments_;
  std::vector<Bucket> buckets_;
  std::vector<std::uint8_t> absent_;   // of each range, in this step, on this rank
  std::vector<std::uint8_t> resting_;  // of each range, in this step
  std::vector<double>
      touched_;                 // 1: had a gradient here since the last sync, by fragment and range
  std::vector<double> rested_;  // exchanges in which the range rested
  std::atomic<bool> all_known_{false};
  bool settled_ = false;  // some rank misses nothing in the buckets that are left
  std::uint8_t announced_ = 0;
  bool to_hear_ = false;     // what the others announced with it
  bool to_release_ = false;  // it was heard here
  bool all_have_next_ = false;
  std::int64_t changes_ = 0;
  std::vector<Piece> found_;
  std::vector<std::uint8_t> mine_, all_;
};

// Copies of what must not change while a bucket works on: `pieces` of its weights (empty: none) and
// state.
class Kept {
 public:
  // Both by the same device, or by devices that share their memory.
  void take(Device& device, std::span<float> weights, const std::vector<State>& state,
            std::span<const Piece> pieces);
  void put_back(Device& device);

 private:
  struct Run {
    float* at;
    std::size_t count;
    bool of_host;
  };
  void add(float* at, std::size_t count, bool of_host);

  std::vector<Run> runs_;
  Memory<float> values_;
  std::vector<float> of_host_;
};

}  // namespace laconic::inline optim
