#include "laconic/optim/rest.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "laconic/core/error.h"

namespace laconic::inline optim {
namespace {

enum Announcement : std::uint8_t { kNone, kSome, kNoneLeft };
constexpr std::uint8_t kHasNext = 4;  // beside one of them

}  // namespace

Rest::Rest(const Model& model, Transport& transport, int fragments)
    : model_(model),
      transport_(transport),
      fragments_(fragments),
      absent_(model.ranges.size()),
      resting_(model.ranges.size()),
      touched_(model.ranges.size() * static_cast<std::size_t>(fragments)),
      rested_(model.ranges.size()) {}

void Rest::add_bucket(std::size_t begin, std::size_t count, int fragment) {
  Bucket bucket{.fragment = fragment, .pieces = {}, .lags = {}};
  for (std::size_t i = 0; i < model_.ranges.size(); ++i) {
    const NamedRange& range = model_.ranges[i];
    const std::size_t from = std::max(begin, range.begin);
    const std::size_t to = std::min(begin + count, range.begin + range.count);
    if (from < to) bucket.pieces.push_back({i, from - begin, to - from});
  }
  buckets_.push_back(std::move(bucket));
}

void Rest::begin() {
  std::ranges::fill(absent_, std::uint8_t{0});
  std::ranges::fill(resting_, std::uint8_t{0});
  all_known_.store(false);
  settled_ = false;
}

void Rest::absent(std::size_t range) {
  if (range >= absent_.size())
    fail(Code::kInvalidArgument, "range {} has no gradient: the model has {} ranges", range,
         absent_.size());
  absent_[range] = 1;
}

bool Rest::misses(const Bucket& bucket, bool local) const noexcept {
  return std::ranges::any_of(
      bucket.pieces, [&](const Piece& piece) { return misses(bucket, piece.range, local); });
}

bool Rest::misses_any() const noexcept {
  return std::ranges::any_of(buckets_, [this](const Bucket& one) { return misses(one, false); });
}

// Buckets are worked on from the last to the first.
std::uint8_t Rest::announcement(int bucket) const noexcept {
  const auto last = buckets_.begin() + bucket;
  if (misses(*last, false)) return kSome;
  const bool none_left =
      all_known_.load() && std::none_of(buckets_.begin(), last,
                                        [this](const Bucket& one) { return misses(one, false); });
  return none_left ? kNoneLeft : kNone;
}

std::span<const Piece> Rest::of(int bucket, bool local, std::optional<bool> has_next) {
  const Bucket& here = buckets_[static_cast<std::size_t>(bucket)];
  if (local || transport_.size() == 1) {
    for (const Piece& piece : here.pieces) resting_[piece.range] = misses(here, piece.range, local);
    return pieces(bucket);
  }
  const std::uint8_t mine = announcement(bucket);
  if (!announce(mine, has_next.value_or(false)) || (has_next && mine != kSome)) return {};
  hear();
  if (!has_next) release();
  if (std::ranges::any_of(all_, [](std::uint8_t one) { return (one & ~kHasNext) != kSome; }))
    return {};
  compare({&here, 1});
  return pieces(bucket);
}

void Rest::announce(bool has_next) { announce(all_known_.load() ? kNoneLeft : kNone, has_next); }

bool Rest::announce(std::uint8_t what, bool has_next) {
  hear();
  release();
  if (settled_) return false;
  announced_ = static_cast<std::uint8_t>(what | (has_next ? kHasNext : 0));
  transport_.post({.kind = Kind::kAllGather}, std::as_bytes(std::span(&announced_, 1)));
  to_hear_ = true;
  return true;
}

void Rest::hear() {
  if (!to_hear_) return;
  to_hear_ = false;
  const Blocks blocks = transport_.arrive();
  all_.resize(static_cast<std::size_t>(transport_.size()));
  for (int r = 0; r < transport_.size(); ++r)
    all_[static_cast<std::size_t>(r)] = std::to_integer<std::uint8_t>(blocks[r].front());
  to_release_ = true;
  settled_ =
      std::ranges::any_of(all_, [](std::uint8_t one) { return (one & ~kHasNext) == kNoneLeft; });
  all_have_next_ =
      std::ranges::all_of(all_, [](std::uint8_t one) { return (one & kHasNext) != 0; });
}

void Rest::release() {
  if (std::exchange(to_release_, false)) transport_.retire();
}

bool Rest::all_have_next() {
  hear();
  return settled_ || all_have_next_;
}

void Rest::agree() { compare(buckets_); }

// A range rests that is missed on all ranks.
void Rest::compare(std::span<const Bucket> buckets) {
  release();
  mine_.clear();
  for (const Bucket& bucket : buckets)
    for (const Piece& piece : bucket.pieces) mine_.push_back(misses(bucket, piece.range, false));
  transport_.gather(std::span<const std::uint8_t>(mine_), all_);
  std::size_t i = 0;
  for (const Bucket& bucket : buckets)
    for (const Piece& piece : bucket.pieces) {
      bool rests = true;
      for (std::size_t at = i; at < all_.size(); at += mine_.size()) rests &= all_[at] != 0;
      resting_[piece.range] = rests;
      ++i;
    }
}

std::span<const Piece> Rest::absent_in(int bucket) {
  found_.clear();
  for (const Piece& piece : all_of(bucket))
    if (absent_[piece.range] != 0) found_.push_back(piece);
  return found_;
}

void Rest::begin_between_steps() {
  begin();
  std::ranges::fill(absent_, std::uint8_t{1});
  all_known();
}

void Rest::synchronized() { std::ranges::fill(touched_, 0.0); }

std::span<const Piece> Rest::pieces(int bucket) {
  found_.clear();
  for (const Piece& piece : buckets_[static_cast<std::size_t>(bucket)].pieces)
    if (resting_[piece.range] != 0) found_.push_back(piece);
  return found_;
}

void Rest::done(const Step& step) {
  if (step.kind == Step::Kind::kNothing) return;
  for (int f = 0; f < fragments_; ++f)
    for (std::size_t i = 0; i < absent_.size(); ++i) {
      double& touched = touched_[place(f, i)];
      touched = exchanged(step, f) ? 0 : absent_[i] == 0 ? 1 : touched;
    }
  if (!step.exchanges()) return;
  for (std::size_t i = 0; i < absent_.size(); ++i) {
    if (resting_[i] == 0) continue;
    rested_[i] += 1;
    ++changes_;
  }
}

void Rest::other_ranks() noexcept { std::ranges::fill(touched_, 0.0); }

std::span<const Lag> Rest::lags(int bucket) {
  Bucket& here = buckets_[static_cast<std::size_t>(bucket)];
  if (here.lags_of == changes_) return here.lags;
  here.lags_of = changes_;
  here.lags.clear();
  bool any = false;
  for (const Piece& piece : here.pieces) {
    const auto steps = static_cast<std::int64_t>(rested_[piece.range]);
    any = any || steps != 0;
    if (!here.lags.empty() && here.lags.back().steps == steps)
      here.lags.back().count += piece.count;
    else
      here.lags.push_back({piece.begin, piece.count, steps});
  }
  if (!any) here.lags.clear();
  return here.lags;
}

std::vector<State> Rest::state() {
  ++changes_;  // the caller may write to it
  return {{.name = "rested",
           .values = {},
           .spread = Spread::kScalar,
           .scalars = rested_,
           .optional = true},
          {.name = "touched",
           .values = {},
           .spread = Spread::kRank,
           .scalars = touched_,
           .optional = true}};
}

void Kept::add(float* at, std::size_t count, bool of_host) {
  runs_.push_back({at, count, of_host});
  if (of_host) of_host_.insert(of_host_.end(), at, at + count);
}

void Kept::take(Device& device, std::span<float> weights, const std::vector<State>& state,
                std::span<const Piece> pieces) {
  runs_.clear();
  of_host_.clear();
  for (const Piece& piece : pieces) {
    if (!weights.empty()) add(weights.data() + piece.begin, piece.count, false);
    for (const State& one : state) {
      const std::size_t from = std::max(piece.begin, one.begin);
      const std::size_t to = std::min(piece.begin + piece.count, one.begin + one.values.size());
      if (from < to) add(one.values.data() + (from - one.begin), to - from, one.of_host);
    }
  }
  std::size_t total = 0;
  for (const Run& run : runs_) total += run.of_host ? 0 : run.count;
  if (values_.size() < total) values_ = Memory<float>(device, total);
  float* to = values_.data();
  for (const Run& run : runs_) {
    if (run.of_host) continue;
    device.copy(run.at, to, 4 * run.count);
    to += run.count;
  }
}

void Kept::put_back(Device& device) {
  const float *from = values_.data(), *from_host = of_host_.data();
  for (const Run& run : runs_) {
    const float*& next = run.of_host ? from_host : from;
    if (run.of_host)
      std::memcpy(run.at, next, 4 * run.count);
    else
      device.copy(next, run.at, 4 * run.count);
    next += run.count;
  }
}

}  // namespace laconic::inline optim
