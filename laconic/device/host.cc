#include "laconic/device/host.h"

#include <algorithm>
#include <cstring>

#include "laconic/kernels/dense.h"

namespace laconic::inline device {
namespace {

// The longest run of whole blocks that fits a tile; the block itself where it is longer.
constexpr std::size_t item_of(std::size_t block) {
  return block > kTile ? block : kTile / block * block;
}

// The same for what is decoded at once; within one block where it is long.
constexpr std::size_t run_of(std::size_t block) {
  if (block == 0 || block >= kTile) return kRun;
  return block > kRun ? block : kRun / block * block;
}

}  // namespace

// Vocabulary: a block is what a codec encodes at once; a tile is the part of it that is worked on
// in L1 (a whole block unless blocks are long). p = a + e is what is encoded: a this rank's values,
// or the mean of all on the owner of a chunk; e the residual. C(p) is what receivers decode, and p
// - C(p) is the next residual.

// A block of a range: `begin` counts from the range's beginning, as messages do.
struct HostDevice::Block {
  std::size_t begin, count, in_vector;
  int thread;
};

namespace {

template <typename Work>
void for_each_tile(std::size_t capacity, std::size_t begin, std::size_t count, const Work& work) {
  for (std::size_t done = 0; done < count; done += kTile)
    work(Codec::Part{capacity, begin + done, std::min(kTile, count - done)});
}

// Of the tile that begins `at` elements into the range.
const float* added_at(const Residual& residual, std::size_t at) {
  return residual.kept && residual.added ? residual.added + at : residual.added;
}

const float* live_at(const EncodeJob& job, std::size_t at) {
  return job.live ? job.live + job.range.begin + at : nullptr;
}

}  // namespace

HostDevice::HostDevice(int threads)
    : pool_(threads),
      scratch_(2 * kTile * static_cast<std::size_t>(threads)),
      results_(static_cast<std::size_t>(threads)) {}

std::unique_ptr<Device> make_host_device(int threads) {
  return std::make_unique<HostDevice>(threads);
}

void HostDevice::reserve(const Codec* codec, std::size_t messages) {
  const std::size_t needed =
      codec ? codec->workspace_size(messages) : signs_workspace_size(messages);
  const std::size_t size = (needed + 63) / 64 * 64;
  if (size <= workspace_size_) return;
  workspace_size_ = size;
  workspace_ = Buffer<std::byte>(size * static_cast<std::size_t>(pool_.threads()));
}

// A pool's item is a run of whole blocks that fits a tile, or one long block.
template <typename Work>
void HostDevice::for_each_block(const Range& range, std::size_t block, const Work& work) {
  if (block == 0) block = range.count;
  if (block == 0) return;
  for_each_piece(pool_, 0, range.count, item_of(block),
                 [&](std::size_t begin, std::size_t count, int thread) {
                   for (std::size_t at = begin; at < begin + count; at += block)
                     work(Block{at, std::min(block, begin + count - at), range.begin + at, thread});
                 });
}

// make(part, p, block) leaves the measured p of a tile in `p`. False, with nothing changed, when
// the block cannot be encoded.
template <typename Make>
bool HostDevice::encode_block(const EncodeJob& job, const Block& at, Codec::Block& block,
                              const Make& make) {
  const bool at_once = at.count <= kTile;
  float* p = nullptr;
  const auto make_p = [&](const Codec::Part& part, Codec::Block& measured) {
    p = job.codec->in_place(job.out, part);
    if (p == nullptr) p = scratch(at.thread);
    return make(part, p, measured);
  };
  bool good = true;
  for_each_tile(job.range.capacity, at.begin, at.count,
                [&](const Codec::Part& part) { good = good && make_p(part, block); });
  if (!good || !job.codec->settle(at.count, block)) return false;
  for_each_tile(job.range.capacity, at.begin, at.count, [&](const Codec::Part& part) {
    if (!at_once) {
      Codec::Block again;
      make_p(part, again);
    }
    // The feedback policies differ here alone. What is left out, times gain and share, is the
    // residual, or is added to a share of the residual before; without `kept` it is dropped.
    const Residual& residual = job.residual;
    float* kept = residual.kept ? residual.kept + part.begin : p;
    float* left = residual.keep != 0 || residual.share == 0 ? p : kept;
    job.codec->encode(p, live_at(job, part.begin), part, block, residual.gain * residual.share,
                      left, job.out);
    if (left == kept) return;
    if (residual.share == 0)
      std::fill_n(kept, part.count, 0.0F);
    else
      kernels::blend(residual.keep, left, live_at(job, part.begin), part.count, kept);
  });
  return true;
}

// Statistics, while the block is in L1.
void HostDevice::sample(const EncodeJob& job, const Block& at) {
  EncodeResult& result = results_[static_cast<std::size_t>(at.thread)];
  for_each_tile(job.range.capacity, at.begin, at.count, [&](const Codec::Part& part) {
    result.residual += kernels::sum_of_squares(job.residual.kept + part.begin, part.count) /
                       (job.residual.gain * job.residual.gain);
    result.sent +=
        kernels::sum_of_squares(job.codec->decode(job.out, part, scratch(at.thread)), part.count);
  });
}

void HostDevice::finish(const EncodeValues& job, const Block& at) {
  if (job.spent) std::memset(job.spent + at.in_vector, 0, 4 * at.count);
  const std::size_t number =
      (at.in_vector - job.sampled_from) / std::max<std::size_t>(job.to.block, 1);
  if (job.to.residual.kept && number % 16 == 0) sample(job.to, at);
}

// Whatever it holds goes out as it is, from where it is.
void HostDevice::encode_exact(const EncodeValues& job, const Block& at) {
  const EncodeJob& to = job.to;
  for_each_tile(to.range.capacity, at.begin, at.count, [&](const Codec::Part& part) {
    float* p = to.codec->in_place(to.out, part);
    Tile tile{.begin = to.range.begin + part.begin,
              .count = part.count,
              .values = p ? p : scratch(at.thread),
              .checked = false};
    fill(job.source, tile);
    Codec::Block unused;
    to.codec->encode(tile.values, nullptr, part, unused, 1, nullptr, to.out);
  });
  finish(job, at);
}

void HostDevice::encode_one(const EncodeValues& job, const Block& at) {
  const EncodeJob& to = job.to;
  const Codec& codec = *to.codec;
  if (codec.exact()) return encode_exact(job, at);
  const auto values = [&](bool fallback) {
    return [&, fallback](const Codec::Part& part, float* p, Codec::Block& block) {
      Tile tile{.begin = to.range.begin + part.begin,
                .count = part.count,
                .values = p,
                .fallback = fallback};
      const bool good = fill(job.source, tile);
      codec.measure(tile.values, added_at(to.residual, part.begin), live_at(to, part.begin),
                    part.count, p, block);
      return good;
    };
  };
  Codec::Block block;
  if (!encode_block(to, at, block, values(false))) {
    ++results_[static_cast<std::size_t>(at.thread)].bad;
    block = {};
    // The block cannot be encoded even so: it decodes to 0 and the residual stays.
    if (!encode_block(to, at, block, values(true)))
      return codec.clear({to.range.capacity, at.begin, at.count}, to.out);
  }
  finish(job, at);
}

// Whole blocks at once, where the codec can and the residual is kept whole or blended. Returns the
// number of elements that are done.
std::size_t HostDevice::encode_run(const EncodeValues& job, const Codec::Part& run, int thread) {
  const EncodeJob& to = job.to;
  const Residual& residual = to.residual;
  if (!to.codec->encodes_runs() || run.count > kTile || !residual.added || residual.share == 0)
    return 0;
  const float* live = live_at(to, run.begin);
  auto a = live ? std::nullopt : terms_of(job.source, to.range.begin + run.begin);
  if (!a) {
    Tile tile{.begin = to.range.begin + run.begin, .count = run.count, .values = scratch(thread)};
    if (!fill(job.source, tile)) return 0;
    a = tile.values;
  }
  float* kept = residual.kept ? residual.kept + run.begin : scratch(thread);
  float* left = residual.keep != 0 ? scratch(thread) : kept;
  const std::size_t done = to.codec->encode_run(*a, added_at(residual, run.begin), live, run,
                                                residual.gain * residual.share, left, to.out);
  if (left != kept) kernels::blend(residual.keep, left, live, done, kept);
  return done;
}

EncodeResult HostDevice::encode(const EncodeValues& job) {
  const EncodeJob& to = job.to;
  const std::size_t block = to.block == 0 ? to.range.count : to.block;
  std::ranges::fill(results_.span(), EncodeResult{});
  if (block != 0)
    for_each_piece(
        pool_, 0, to.range.count, item_of(block),
        [&](std::size_t begin, std::size_t count, int thread) {
          const std::size_t done = encode_run(job, {to.range.capacity, begin, count}, thread);
          for (std::size_t at = 0; at < count; at += block) {
            const Block one{begin + at, std::min(block, count - at), to.range.begin + begin + at,
                            thread};
            at < done ? finish(job, one) : encode_one(job, one);
          }
        });
  EncodeResult all;
  for (const EncodeResult& one : results_.span()) {
    all.bad += one.bad;
    all.sent += one.sent;
    all.residual += one.residual;
  }
  return all;
}

// Elements of the mean from `begin` on, in parts that lie in one block of the messages each.
void HostDevice::decode_mean(const CombineMessages& job, std::size_t begin, std::size_t count,
                             int thread, float* q) const {
  const EncodeJob& to = job.to;
  const std::size_t block = job.from->block() == 0 ? to.range.count : job.from->block();
  for (std::size_t at = begin; at < begin + count;) {
    const std::size_t part = std::min({begin + count - at, block - at % block, kTile});
    Codec::Block unused;
    job.from->combine(job.messages, {to.range.capacity, at, part}, job.factor,
                      added_at(to.residual, at), live_at(to, at), q + (at - begin), unused,
                      workspace(thread));
    at += part;
  }
}

// The mean of one codec's messages, encoded with another one. Blocks that fit a tile are decoded
// together, so that a longer block of the messages is read once.
void HostDevice::recode(const CombineMessages& job) {
  const EncodeJob& to = job.to;
  const std::size_t block = to.block == 0 ? to.range.count : to.block;
  if (block == 0) return;
  const bool together = block <= kTile;
  const auto work = [&](std::size_t begin, std::size_t count, int thread) {
    float* q = scratch(thread);
    if (together) decode_mean(job, begin, count, thread, q);
    // p is the beginning of q: the block itself or one that is done.
    const auto mean = [&](const Codec::Part& part, float* p, Codec::Block& measured) {
      if (!together) decode_mean(job, part.begin, part.count, thread, p);
      to.codec->measure(together ? q + (part.begin - begin) : p, nullptr, live_at(to, part.begin),
                        part.count, p, measured);
      return true;
    };
    for (std::size_t at = begin; at < begin + count; at += block) {
      const std::size_t length = std::min(block, begin + count - at);
      Codec::Block measured;
      if (!encode_block(to, {at, length, to.range.begin + at, thread}, measured, mean))
        to.codec->clear({to.range.capacity, at, length}, to.out);
    }
  };
  for_each_piece(pool_, 0, to.range.count, item_of(block), work);
}

void HostDevice::combine(const CombineMessages& job) {
  if (job.from && job.from != job.to.codec) return recode(job);
  const EncodeJob& to = job.to;
  if (job.own) {
    for_each_piece(pool_, 0, to.range.count, kTile,
                   [&](std::size_t begin, std::size_t count, int thread) {
                     to.codec->combine_own(job.messages, {to.range.capacity, begin, count},
                                           job.factor, job.own + begin, to.out, workspace(thread));
                   });
    return;
  }
  for_each_block(to.range, to.block, [&](const Block& at) {
    const auto mean = [&](const Codec::Part& part, float* q, Codec::Block& block) {
      to.codec->combine(job.messages, part, job.factor, added_at(to.residual, part.begin),
                        live_at(to, part.begin), q, block, workspace(at.thread));
      return true;
    };
    Codec::Block block;
    if (!encode_block(to, at, block, mean))
      to.codec->clear({to.range.capacity, at.begin, at.count}, to.out);
  });
}

void HostDevice::decode(const DecodeMessage& job) {
  // A sink works on a tile as fast as memory allows, on a short block it does not.
  const std::size_t run = job.block == 0 ? 0 : item_of(job.block);
  // Exact means may hold what is not finite, and then a sink leaves out a whole block.
  const std::size_t most = job.codec->exact() ? kTile : run_of(job.block);
  const auto* store = std::get_if<Store>(&job.sink);
  for_each_block(job.range, run, [&](const Block& at) {
    for (std::size_t done = 0; done < at.count; done += most) {
      const Codec::Part part{job.range.capacity, at.begin + done, std::min(most, at.count - done)};
      const std::size_t begin = job.range.begin + part.begin;
      float* to = store ? store->to + begin : scratch(at.thread);
      const float* mean = job.codec->decode(job.message, part, to);
      if (!store || mean != to) take(job.sink, begin, {mean, part.count});
    }
  });
}

void HostDevice::share(const ShareValues& job, std::uint64_t& bad) {
  Counter found{0};
  const Range& range = job.range;
  const std::size_t piece = job.block == 0 ? range.count : job.block;
  for_each_piece(pool_, range.begin, range.count, piece,
                 [&](std::size_t begin, std::size_t count, int) {
                   float* to = job.out + (begin - range.begin);
                   if (!fill_floats(job.source, begin, count, false, to) && job.falls_back) {
                     found.fetch_add(1, std::memory_order_relaxed);
                     fill_floats(job.source, begin, count, true, to);
                   }
                   if (job.spent) std::memset(job.spent + begin, 0, 4 * count);
                 });
  bad += found.load();
}

}  // namespace laconic::inline device
