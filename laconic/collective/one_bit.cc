#include <algorithm>
#include <cmath>
#include <cstring>

#include "laconic/collective/float_shares.h"
#include "laconic/core/error.h"
#include "laconic/kernels/dense.h"
#include "laconic/kernels/sign.h"
#include "laconic/wire/chunk.h"

namespace laconic {
namespace {

using kernels::Coded;
using kernels::Lanes;

std::uint8_t* bits_at(std::byte* bits, std::size_t offset) {
  return reinterpret_cast<std::uint8_t*>(bits + offset / 8);
}
const std::uint8_t* bits_at(const std::byte* bits, std::size_t offset) {
  return reinterpret_cast<const std::uint8_t*>(bits + offset / 8);
}

// Vocabulary: a block is what shares one scale; a tile is the part of it that is worked on in L1 (a
// whole block unless blocks are long). p = what is to be said, C(p) = copysign(scale, p) what is
// said, p - C(p) the residual that the next exchange says. Workers keep theirs on what they code,
// the owner of a chunk keeps one on the chunk.
//
// A sum over a block runs in 16 lanes from its first to its last element; with one scale a chunk it
// is folded every 4096 elements and the parts are added in double.
class BlockSum {
 public:
  explicit BlockSum(bool in_parts) : in_parts_(in_parts) {}
  Lanes& lanes() { return lanes_; }
  void end_of_tile() {
    if (!in_parts_) return;
    total_ += kernels::fold(lanes_);
    lanes_ = {};
  }
  float value() const { return in_parts_ ? static_cast<float>(total_) : kernels::fold(lanes_); }

 private:
  bool in_parts_;
  Lanes lanes_;
  double total_ = 0;
};

// Sums of squares of one thread.
struct Norms {
  double said = 0, unsaid = 0;
};

class OneBitCoder final : public FloatShares {
 public:
  OneBitCoder(const MeanConfig& config, const Place& place, Pool& pool)
      : FloatShares(pool, config, static_cast<float>(1.0 / place.per_node)),
        block_(config.scale_block),
        norm_(config.scale_norm),
        factor_(static_cast<float>(1.0 / place.voices)),
        gain_(config.pending.empty() ? 1.0F : static_cast<float>(place.per_node)),
        place_(place),
        worker_(config.pending.empty() ? place.shard_count : 0),
        server_(place.chunk_count),
        norms_(static_cast<std::size_t>(pool.threads())),
        coded_(static_cast<std::size_t>(place.voices) * static_cast<std::size_t>(pool.threads())) {}

  std::size_t coded_size(std::size_t capacity) const override {
    return wire::signs_size(capacity, block_);
  }
  std::size_t served_size(std::size_t capacity) const override { return coded_size(capacity); }

  void begin(const Round& round) override {
    FloatShares::begin(round);
    ++sequence_;
    std::fill(norms_.begin(), norms_.end(), Norms{});
  }

  double residual_ratio() const noexcept override {
    Norms all;
    for (const Norms& part : norms_) {
      all.said += part.said;
      all.unsaid += part.unsaid;
    }
    return all.said > 0 ? std::sqrt(all.unsaid / all.said) : 0;
  }

  void code(const Range& range, Fill source, std::span<std::byte> out) override {
    write(range, out, [&](std::size_t begin, std::size_t count, int thread, std::byte* bits) {
      float* e = pending_.empty() ? worker_.data() + (begin - place_.shard_begin)
                                  : pending_.data() + begin;
      const float* added = pending_.empty() ? e : nullptr;
      const auto message = [&](bool fallback) {
        return [this, source, added, begin, thread, fallback](std::size_t at, std::size_t n,
                                                              BlockSum& sum) {
          Tile tile{.begin = at, .count = n, .values = scratch(thread), .fallback = fallback};
          const bool good = source(tile);
          kernels::measure(tile.values, added ? added + (at - begin) : nullptr, live(at), n, norm_,
                           scratch(thread), sum.lanes());
          return good;
        };
      };
      float scale = 0;
      if (!code_block(begin, count, thread, message(false), e, bits, &scale, gain_)) {
        bad_.fetch_add(1, std::memory_order_relaxed);
        if (!code_block(begin, count, thread, message(true), e, bits, &scale, gain_))
          return silence(count, bits);
      }
      if ((begin - place_.shard_begin) / std::max<std::size_t>(block_, 1) % 16 == 0)
        note(e, count, thread, scale);
      return scale;
    });
  }

  void serve(const Range& range, std::span<const std::byte* const> coded,
             std::span<std::byte> out) override {
    for (std::size_t r = 0; r < coded.size(); ++r)
      check({coded[r], coded_size(range.capacity)}, range, static_cast<int>(r));
    write(range, out, [&](std::size_t begin, std::size_t count, int thread, std::byte* bits) {
      float* e = server_.data() + (begin - place_.chunk_begin);
      const auto message = [&](std::size_t at, std::size_t n, BlockSum& sum) {
        const Coded* from = gather(range, coded, begin, at, thread);
        kernels::serve(from, static_cast<int>(coded.size()), factor_, e + (at - begin), live(at), n,
                       norm_, scratch(thread), sum.lanes());
        return true;
      };
      float scale = 0;
      if (code_block(begin, count, thread, message, e, bits, &scale, 1.0F)) return scale;
      return silence(count, bits);
    });
  }

  void take(const Range& range, std::span<const std::byte> served, int owner, Take take) override {
    check(served, range, owner);
    const auto in = wire::parts(served, range.capacity);
    for_each_block(range, [&](std::size_t begin, std::size_t count, std::size_t block, int thread) {
      const float scale = wire::load_float(in.extras + 4 * block);
      for_each_tile(begin, count, [&](std::size_t at, std::size_t n) {
        kernels::decode({scale, bits_at(in.bits, at - range.begin)}, n, scratch(thread));
        take(at, {scratch(thread), n});
      });
    });
  }

  std::vector<State> state() override {
    std::vector<State> all;
    if (pending_.empty())
      all.push_back({"worker_residual", worker_.span(), Spread::kMean, place_.shard_begin});
    all.push_back({"server_residual", server_.span(), Spread::kOwned, place_.chunk_begin});
    return all;
  }

  std::string describe() const override {
    const char* norm = norm_ == kernels::Norm::kL2 ? "L2" : "L1";
    return block_ == 0 ? fmt::format("one-bit mean, one {} scale a chunk", norm)
                       : fmt::format("one-bit mean, {} scales of {} elements", norm, block_);
  }

 private:
  const float* live(std::size_t at) const {
    return round_.live.empty() ? nullptr : round_.live.data() + at;
  }

  // work(begin, count, number of the block in the range, thread).
  template <typename Work>
  void for_each_block(const Range& range, const Work& work) {
    const std::size_t block = block_ == 0 ? range.count : block_;
    for_each_piece(pool_, range.begin, range.count, block,
                   [&](std::size_t begin, std::size_t count, int thread) {
                     work(begin, count, (begin - range.begin) / block, thread);
                   });
  }

  template <typename Work>
  static void for_each_tile(std::size_t begin, std::size_t count, const Work& work) {
    for (std::size_t at = 0; at < count; at += Mean::kTile)
      work(begin + at, std::min(Mean::kTile, count - at));
  }

  // A message whose blocks are coded by `code`, which returns the scale.
  template <typename Code>
  void write(const Range& range, std::span<std::byte> out, const Code& code) {
    const auto to = wire::parts(out, range.capacity);
    const std::size_t used = wire::words(range.count), blocks = wire::blocks(range.count, block_);
    std::memset(to.bits + 8 * used, 0, 8 * (wire::words(range.capacity) - used));
    std::memset(to.extras + 4 * blocks, 0, 4 * (wire::blocks(range.capacity, block_) - blocks));
    for_each_block(range, [&](std::size_t begin, std::size_t count, std::size_t block, int thread) {
      std::byte* bits = to.bits + (begin - range.begin) / 8;
      wire::store_float(to.extras + 4 * block, code(begin, count, thread, bits));
    });
    wire::seal(out, header(range));
  }

  // measure(at, n, sum) leaves p of a tile in scratch. False, with nothing changed, when the block
  // is bad.
  template <typename Measure>
  bool code_block(std::size_t begin, std::size_t count, int thread, const Measure& measure,
                  float* e, std::byte* bits, float* scale, float gain) {
    BlockSum sum(block_ == 0);
    std::size_t counted = 0;
    bool good = true;
    for_each_tile(begin, count, [&](std::size_t at, std::size_t n) {
      good = good && measure(at, n, sum);
      sum.end_of_tile();
      counted += live(at) ? kernels::count_live(live(at), n) : n;
    });
    const float total = sum.value();
    if (!good || !std::isfinite(total)) return false;
    *scale = kernels::scale_of(total, counted, norm_);
    for_each_tile(begin, count, [&](std::size_t at, std::size_t n) {
      BlockSum again(false);
      if (count > Mean::kTile) measure(at, n, again);
      kernels::code(scratch(thread), live(at), n, *scale, gain, e + (at - begin),
                    bits_at(bits, at - begin));
    });
    return true;
  }
  // Statistics from one block in 16, while it is in L1.
  void note(const float* e, std::size_t count, int thread, float scale) {
    Norms& norms = norms_[static_cast<std::size_t>(thread)];
    for_each_tile(0, count, [&](std::size_t at, std::size_t n) {
      norms.unsaid += kernels::sum_of_squares(e + at, n) / (gain_ * gain_);
    });
    norms.said += static_cast<double>(scale) * scale * static_cast<double>(count);
  }

  // Nothing sane can be said of the block: a scale of 0, the residual stays.
  static float silence(std::size_t count, std::byte* bits) {
    std::memset(bits, 0, 8 * wire::words(count));
    return 0;
  }

  const Coded* gather(const Range& range, std::span<const std::byte* const> coded,
                      std::size_t begin, std::size_t at, int thread) {
    Coded* from = coded_.data() + coded.size() * static_cast<std::size_t>(thread);
    const std::size_t block = block_ == 0 ? 0 : (begin - range.begin) / block_;
    for (std::size_t r = 0; r < coded.size(); ++r) {
      const auto in = wire::parts(std::span(coded[r], coded_size(range.capacity)), range.capacity);
      from[r] = {wire::load_float(in.extras + 4 * block), bits_at(in.bits, at - range.begin)};
    }
    return from;
  }

  void check(std::span<const std::byte> message, const Range& range, int from) const {
    wire::check(message, coded_size(range.capacity), header(range), from);
    wire::check_scales(wire::parts(message, range.capacity).extras,
                       wire::blocks(range.count, block_), from);
  }

  wire::Header header(const Range& range) const {
    return {wire::Form::kSigns, static_cast<std::uint32_t>(range.count), sequence_};
  }

  std::size_t block_;
  kernels::Norm norm_;
  float factor_, gain_;
  Place place_;
  Buffer<float> worker_, server_;
  std::vector<Norms> norms_;
  std::vector<Coded> coded_;
  std::uint32_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<Coder> make_one_bit_coder(const MeanConfig& config, const Place& place,
                                          Pool& pool) {
  return std::make_unique<OneBitCoder>(config, place, pool);
}

}  // namespace laconic
