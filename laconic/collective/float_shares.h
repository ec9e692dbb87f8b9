#pragma once

#include <atomic>

#include "laconic/collective/coder.h"
#include "laconic/core/buffer.h"

namespace laconic {

// The part inside a node that dense and one-bit means have in common: whole fp32 values, added in
// rank order.
class FloatShares : public Coder {
 public:
  std::size_t share_size(std::size_t capacity) const override { return 4 * capacity; }
  void share(const Range& range, Fill fill, std::span<std::byte> out) override;
  void join(const Range& range, std::span<const std::byte* const> shares, Tile& tile) override;
  void begin(const Round& round) override { round_ = round; }
  std::uint64_t bad_blocks() const noexcept override {
    return bad_.load(std::memory_order_relaxed);
  }

 protected:
  // One-bit means fall back by scale block (0: a whole range), dense ones never; `join_factor`
  // multiplies the node's sum.
  FloatShares(Pool& pool, const MeanConfig& config, float join_factor)
      : pool_(pool),
        pending_(config.pending),
        falls_back_(config.kind == MeanKind::kOneBit),
        block_(falls_back_ ? config.scale_block : Mean::kTile),
        join_factor_(join_factor),
        scratch_(Mean::kTile * static_cast<std::size_t>(pool.threads())) {}

  float* scratch(int thread) const {
    return scratch_.data() + Mean::kTile * static_cast<std::size_t>(thread);
  }

  Pool& pool_;
  std::span<float> pending_;
  Round round_;
  std::atomic<std::uint64_t> bad_{0};

 private:
  bool falls_back_;
  std::size_t block_;
  float join_factor_;
  Buffer<float> scratch_;
};

// Fills [begin, begin + count) into `out`, tile by tile; false when any tile was not finite.
bool fill_floats(Fill fill, std::size_t begin, std::size_t count, bool fallback, float* out);

}  // namespace laconic
