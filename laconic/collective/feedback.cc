#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "laconic/collective/coder.h"
#include "laconic/collective/layout.h"
#include "laconic/core/error.h"
#include "laconic/kernels/dense.h"

namespace laconic {
namespace {

// Vocabulary: a block is what a codec encodes at once; a tile is the part of it that is worked on
// in L1 (a whole block unless blocks are long). p = a + e is what is encoded: a this rank's values,
// or the mean of all on the owner of a chunk; e the residual. C(p) is what receivers decode, and p
// - C(p) is the next residual. Workers keep theirs on what they encode, the owner keeps one on its
// chunk.

// Sums of squares of one thread.
struct Norms {
  double sent = 0, residual = 0;
};

// Fills [begin, begin + count) into `out`, tile by tile; false when any tile was not finite.
bool fill_floats(Fill fill, std::size_t begin, std::size_t count, bool fallback, float* out) {
  bool good = true;
  for (std::size_t at = 0; at < count; at += Mean::kTile) {
    Tile tile{.begin = begin + at,
              .count = std::min(Mean::kTile, count - at),
              .values = out + at,
              .fallback = fallback};
    good &= fill(tile);
    if (tile.values != out + at) std::memcpy(out + at, tile.values, 4 * tile.count);
  }
  return good;
}

// Runs any codec: what is the same for all of them. Exact codecs leave nothing over; they share the
// paths and skip the rest.
class FeedbackCoder final : public Coder {
 public:
  FeedbackCoder(const MeanConfig& config, const Place& place, Pool& pool);

  Sizes sizes(std::size_t capacity) const override { return sizes_of(*codec_, capacity); }
  void share(const Range& range, Fill fill, std::span<std::byte> out) override;
  void join(const Range& range, std::span<const std::byte* const> shares, Tile& tile) override;
  void encode(const Range& range, Fill source, std::span<std::byte> out) override;
  void combine(const Range& range, std::span<const std::byte* const> messages,
               std::span<std::byte> out) override;
  void decode(const Range& range, std::span<const std::byte> message, int owner,
              Take take) override;

  void begin(const Round& round) override {
    Coder::begin(round);
    round_ = round;
    std::fill(norms_.begin(), norms_.end(), Norms{});
  }
  std::vector<State> state() override;
  std::uint64_t bad_blocks() const noexcept override {
    return bad_.load(std::memory_order_relaxed);
  }
  double residual_ratio() const noexcept override {
    Norms all;
    for (const Norms& part : norms_) {
      all.sent += part.sent;
      all.residual += part.residual;
    }
    return all.sent > 0 ? std::sqrt(all.residual / all.sent) : 0;
  }
  std::string describe() const override { return codec_->describe(); }

 private:
  // A block of a range: `begin` counts from the range's beginning, as messages do.
  struct At {
    const Range& range;
    std::size_t begin, count;
    int thread;

    std::size_t in_vector() const { return range.begin + begin; }
    Codec::Part whole() const { return {range.capacity, begin, count}; }
  };
  // Where a block's residual is kept (null: nowhere) and what is added to a (null: nothing).
  struct Residual {
    float* kept;
    const float* added;
    float gain;

    // Of the tile that begins `done` elements into the block. A residual that is not kept is 0.
    const float* added_at(std::size_t done) const { return kept && added ? added + done : added; }
  };

  bool keeps() const { return !exact_ && feedback_ != Feedback::kNone; }
  Residual worker_residual(const At& at) const;
  Residual server_residual(const At& at) const;
  const float* live(std::size_t at) const {
    return exact_ || round_.live.empty() ? nullptr : round_.live.data() + at;
  }

  template <typename Work>
  void for_each_block(const Range& range, const Work& work);
  template <typename Work>
  static void for_each_tile(const At& at, const Work& work);
  template <typename Encode>
  void write(const Range& range, std::span<std::byte> out, const Encode& encode);
  template <typename Make>
  bool encode_block(const At& at, const Residual& residual, std::byte* message, Codec::Block& block,
                    const Make& make);
  void note(const At& at, const Residual& residual, const Codec::Block& block);
  void check(std::span<const std::byte> message, const Range& range, int from) const;

  std::unique_ptr<Codec> codec_;
  bool exact_, falls_back_;
  Feedback feedback_;
  std::size_t block_;           // elements that are encoded together; 0: a whole range
  std::size_t fallback_block_;  // elements that fall back together inside a node
  float join_factor_, factor_;
  Place place_;
  std::span<float> pending_;
  Buffer<float> worker_, server_, zeros_;
  std::vector<Norms> norms_;
  std::size_t workspace_size_;
  Buffer<std::byte> workspace_;
  Round round_;
  std::atomic<std::uint64_t> bad_{0};
};

// Exact sums are divided once, by the number of ranks; lossy codecs encode the mean of a node.
// Blocks are bad as a whole where a lossy codec was asked for, even if an exact one runs.
FeedbackCoder::FeedbackCoder(const MeanConfig& config, const Place& place, Pool& pool)
    : Coder(pool),
      codec_(make_codec(codec_that_runs(config, place.per_node, place.nodes), options_of(config))),
      exact_(codec_->exact()),
      feedback_(config.feedback),
      block_(exact_ ? tile_of(config.scale_block) : codec_->block()),
      join_factor_(exact_ ? 1.0F : static_cast<float>(1.0 / place.per_node)),
      factor_(static_cast<float>(
          1.0 / (static_cast<double>(place.nodes) * (exact_ ? place.per_node : 1)))),
      place_(place),
      pending_(config.pending),
      worker_(keeps() && config.pending.empty() ? place.shard_count : 0),
      server_(keeps() ? place.chunk_count : 0),
      zeros_(!exact_ && !keeps() ? Mean::kTile : 0),
      norms_(static_cast<std::size_t>(pool.threads())),
      workspace_size_(round_up(codec_->workspace_size(static_cast<std::size_t>(place.nodes)), 64)),
      workspace_(workspace_size_ * static_cast<std::size_t>(pool.threads())) {
  const auto asked = make_codec(config.codec, options_of(config));
  falls_back_ = !asked->exact();
  fallback_block_ = falls_back_ ? asked->block() : Mean::kTile;
}

// Whole fp32 values. The caller's residual is part of them.
void FeedbackCoder::share(const Range& range, Fill fill, std::span<std::byte> out) {
  auto* floats = reinterpret_cast<float*>(out.data());
  const std::size_t piece = fallback_block_ == 0 ? range.count : fallback_block_;
  for_each_piece(pool_, range.begin, range.count, piece,
                 [&](std::size_t begin, std::size_t count, int) {
                   float* to = floats + (begin - range.begin);
                   if (!fill_floats(fill, begin, count, false, to) && falls_back_) {
                     bad_.fetch_add(1, std::memory_order_relaxed);
                     fill_floats(fill, begin, count, true, to);
                   }
                   if (!pending_.empty()) std::memset(pending_.data() + begin, 0, 4 * count);
                 });
}

// Added in rank order.
void FeedbackCoder::join(const Range& range, std::span<const std::byte* const> shares, Tile& tile) {
  constexpr std::size_t kMost = 1024;
  const float* from[kMost];
  if (shares.size() > kMost)
    fail(Code::kInvalidArgument, "{} ranks per node, at most {} are supported", shares.size(),
         kMost);
  for (std::size_t r = 0; r < shares.size(); ++r)
    from[r] = reinterpret_cast<const float*>(shares[r]) + (tile.begin - range.begin);
  kernels::sum(from, static_cast<int>(shares.size()), tile.count, join_factor_, tile.values);
}

void FeedbackCoder::encode(const Range& range, Fill source, std::span<std::byte> out) {
  write(range, out, [&](const At& at) {
    const Residual residual = worker_residual(at);
    const auto values = [&](bool fallback) {
      return [this, source, &at, &residual, fallback](const Codec::Part& part, float* p,
                                                      Codec::Block& block) {
        const std::size_t begin = at.range.begin + part.begin, done = part.begin - at.begin;
        Tile tile{.begin = begin, .count = part.count, .values = p, .fallback = fallback};
        const bool good = source(tile) || exact_;
        codec_->measure(tile.values, residual.added_at(done), live(begin), part.count, p, block);
        return good;
      };
    };
    Codec::Block block;
    if (!encode_block(at, residual, out.data(), block, values(false))) {
      bad_.fetch_add(1, std::memory_order_relaxed);
      block = {};
      // The block cannot be encoded even so: it decodes to 0 and the residual stays.
      if (!encode_block(at, residual, out.data(), block, values(true)))
        return codec_->clear(at.whole(), out.data());
    }
    if (exact_ && !pending_.empty()) std::memset(pending_.data() + at.in_vector(), 0, 4 * at.count);
    const std::size_t number =
        (at.in_vector() - place_.shard_begin) / std::max<std::size_t>(block_, 1);
    if (keeps() && number % 16 == 0) note(at, residual, block);
  });
}

void FeedbackCoder::combine(const Range& range, std::span<const std::byte* const> messages,
                            std::span<std::byte> out) {
  for (std::size_t r = 0; r < messages.size(); ++r)
    check({messages[r], sizes(range.capacity).up}, range, static_cast<int>(r));
  write(range, out, [&](const At& at) {
    const Residual residual = server_residual(at);
    std::byte* workspace =
        workspace_.data() + workspace_size_ * static_cast<std::size_t>(at.thread);
    const auto mean = [&](const Codec::Part& part, float* q, Codec::Block& block) {
      codec_->combine(messages, part, factor_, residual.added_at(part.begin - at.begin),
                      live(range.begin + part.begin), q, block, workspace);
      return true;
    };
    Codec::Block block;
    if (!encode_block(at, residual, out.data(), block, mean)) codec_->clear(at.whole(), out.data());
  });
}

void FeedbackCoder::decode(const Range& range, std::span<const std::byte> message, int owner,
                           Take take) {
  check(message, range, owner);
  for_each_block(range, [&](const At& at) {
    for_each_tile(at, [&](const Codec::Part& part) {
      take(range.begin + part.begin,
           {codec_->decode(message.data(), part, scratch(at.thread)), part.count});
    });
  });
}

std::vector<State> FeedbackCoder::state() {
  std::vector<State> all;
  if (!keeps()) return all;
  if (pending_.empty())
    all.push_back({.name = kWorkerResidual,
                   .values = worker_.span(),
                   .spread = Spread::kMean,
                   .begin = place_.shard_begin,
                   .role = Role::kResidual});
  all.push_back({.name = kServerResidual,
                 .values = server_.span(),
                 .spread = Spread::kOwned,
                 .begin = place_.chunk_begin,
                 .role = Role::kResidual});
  return all;
}

// What the caller keeps is already in its values, and counts for each rank of the node.
FeedbackCoder::Residual FeedbackCoder::worker_residual(const At& at) const {
  if (!keeps()) return {nullptr, zeros_.data(), 1};
  if (!pending_.empty())
    return {pending_.data() + at.in_vector(), nullptr, static_cast<float>(place_.per_node)};
  float* e = worker_.data() + (at.in_vector() - place_.shard_begin);
  return {e, e, 1};
}

FeedbackCoder::Residual FeedbackCoder::server_residual(const At& at) const {
  if (!keeps()) return {nullptr, zeros_.data(), 1};
  float* e = server_.data() + (at.in_vector() - place_.chunk_begin);
  return {e, e, 1};
}

// A pool's item is a run of whole blocks that fits a tile, or one long block.
template <typename Work>
void FeedbackCoder::for_each_block(const Range& range, const Work& work) {
  const std::size_t block = block_ == 0 ? range.count : block_;
  for_each_piece(pool_, 0, range.count, block > Mean::kTile ? block : tile_of(block),
                 [&](std::size_t begin, std::size_t count, int thread) {
                   for (std::size_t at = 0; at < count; at += block)
                     work(At{range, begin + at, std::min(block, count - at), thread});
                 });
}

template <typename Work>
void FeedbackCoder::for_each_tile(const At& at, const Work& work) {
  for (std::size_t done = 0; done < at.count; done += Mean::kTile)
    work(Codec::Part{at.range.capacity, at.begin + done, std::min(Mean::kTile, at.count - done)});
}

// A message whose blocks are written by `encode`.
template <typename Encode>
void FeedbackCoder::write(const Range& range, std::span<std::byte> out, const Encode& encode) {
  codec_->clear({range.capacity, range.count, range.capacity - range.count}, out.data());
  for_each_block(range, encode);
  if (const auto form = codec_->form()) wire::seal(out, header(*form, range));
}

// make(part, p, block) leaves the measured p of a tile in `p`. False, with nothing changed, when
// the block cannot be encoded.
template <typename Make>
bool FeedbackCoder::encode_block(const At& at, const Residual& residual, std::byte* message,
                                 Codec::Block& block, const Make& make) {
  const bool at_once = at.count <= Mean::kTile;
  float* p = nullptr;
  const auto make_p = [&](const Codec::Part& part, Codec::Block& measured) {
    p = codec_->in_place(message, part);
    if (p == nullptr) p = scratch(at.thread);
    return make(part, p, measured);
  };
  bool good = true;
  for_each_tile(at, [&](const Codec::Part& part) { good = good && make_p(part, block); });
  if (!good || !codec_->settle(at.count, block)) return false;
  for_each_tile(at, [&](const Codec::Part& part) {
    if (!at_once) {
      Codec::Block again;
      make_p(part, again);
    }
    // The feedback policies differ here alone. Full: the residual becomes (p - C(p)) * gain. None:
    // it is written over p and dropped.
    float* e = residual.kept ? residual.kept + (part.begin - at.begin) : p;
    codec_->encode(p, live(at.range.begin + part.begin), part, block, residual.gain, e, message);
  });
  return true;
}

// Statistics from one block in 16, while it is in L1.
void FeedbackCoder::note(const At& at, const Residual& residual, const Codec::Block& block) {
  Norms& norms = norms_[static_cast<std::size_t>(at.thread)];
  for (std::size_t done = 0; done < at.count; done += Mean::kTile)
    norms.residual +=
        kernels::sum_of_squares(residual.kept + done, std::min(Mean::kTile, at.count - done)) /
        (residual.gain * residual.gain);
  norms.sent += block.sent;
}

void FeedbackCoder::check(std::span<const std::byte> message, const Range& range, int from) const {
  const auto form = codec_->form();
  if (!form) return;
  wire::check(message, codec_->message_size(range.capacity), header(*form, range), from);
  codec_->check(message.data(), range.capacity, range.count, from);
}

}  // namespace

std::unique_ptr<Coder> make_feedback_coder(const MeanConfig& config, const Place& place,
                                           Pool& pool) {
  return std::make_unique<FeedbackCoder>(config, place, pool);
}

}  // namespace laconic
