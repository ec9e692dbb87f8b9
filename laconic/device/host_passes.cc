#include <algorithm>
#include <cstring>

#include "laconic/device/host.h"
#include "laconic/kernels/dense.h"
#include "laconic/kernels/outer.h"
#include "laconic/kernels/random_sign.h"
#include "laconic/kernels/sign.h"
#include "laconic/kernels/update.h"
#include "laconic/kernels/vote.h"

namespace laconic::inline device {
namespace {

constexpr std::size_t kWord = 64;

void note(const BadBlocks& bad) { bad.count->fetch_add(1, std::memory_order_relaxed); }

// work(begin, count) for the blocks of a tile that holds something not finite; for the tile itself
// where blocks are longer.
template <typename Work>
void for_each_block(std::size_t block, std::size_t begin, std::size_t count, const Work& work) {
  const std::size_t piece = block == 0 || block > kTile ? count : block;
  for (std::size_t at = 0; at < count; at += piece)
    work(begin + at, at + piece < count ? piece : count - at);
}

// good(begin, values) for what is finite of a tile of an exact mean, left(begin, count) for the
// rest, which is counted.
template <typename Good, typename Left>
void for_each_finite(const BadBlocks& bad, std::size_t begin, std::span<const float> mean,
                     const Good& good, const Left& left) {
  if (kernels::all_finite(mean.data(), mean.size())) return good(begin, mean);
  for_each_block(bad.block, begin, mean.size(), [&](std::size_t at, std::size_t count) {
    const auto part = mean.subspan(at - begin, count);
    if (kernels::all_finite(part.data(), count)) return good(at, part);
    note(bad);
    left(at, count);
  });
}

// work(begin, values, floor) for the parts of a mean that lie in one block each. Exact and flat
// means come in tiles that may hold several blocks.
template <typename Work>
void for_each_floor(const FloorTable& table, std::size_t begin, std::span<const float> mean,
                    const Work& work) {
  table.for_each(begin, mean.size(), [&](std::size_t at, std::size_t count, float floor) {
    work(at, mean.subspan(at - begin, count), floor);
  });
}

kernels::AdamStep with_floor(kernels::AdamStep step, float floor) {
  step.floor = floor;
  return step;
}

// A tile whose gradient is not finite was filled without it. Lossy codecs ask again, block by block,
// and count; exact ones take what they have: true, counted here.
bool leave_out(Counter* exact_bad) {
  if (exact_bad == nullptr) return false;
  exact_bad->fetch_add(1, std::memory_order_relaxed);
  return true;
}

// The activity of `count` elements from `begin` on. update(begin, count, word, activity) gives that
// of what begins with word `word` of the tile, or is false and changes nothing where that is not
// finite; this is counted, and its `bits` (null: none) are 0. Bad blocks are found one by one where
// they are made of whole words of the tile.
template <typename Update>
std::uint64_t activity_of(const BadBlocks& bad, const Tile& tile, std::uint8_t* bits,
                          std::size_t begin, std::size_t count, const Update& update) {
  const std::size_t word = (begin - tile.begin) / kWord;
  std::uint64_t finite = 0;
  if (update(begin, count, word, &finite)) return finite << word;
  if (bad.block == 0 || count <= bad.block || kTile % bad.block != 0) {
    note(bad);
    if (bits) std::memset(bits + 8 * word, 0, (count + kWord - 1) / kWord * 8);
    return 0;
  }
  std::uint64_t active = 0;
  for_each_block(bad.block, begin, count, [&](std::size_t at, std::size_t n) {
    active |= activity_of(bad, tile, bits, at, n, update);
  });
  return active;
}

std::uint64_t update_moments(const SignMoments& source, const Tile& tile) {
  static const kernels::Draw kNone;
  return activity_of(
      source.bad, tile, tile.draw ? tile.bits : nullptr, tile.begin, tile.count,
      [&](std::size_t begin, std::size_t count, std::size_t word, std::uint64_t* active) {
        return kernels::birder_moments(source.step, source.g + begin, source.m + begin,
                                       source.b + begin, count, tile.draw ? *tile.draw : kNone,
                                       begin, tile.draw ? tile.wanted >> word : 0,
                                       tile.draw ? tile.bits + 8 * word : nullptr, active);
      });
}

std::uint64_t update_votes(const LionVotes& source, const Tile& tile, std::uint8_t* bits) {
  return activity_of(
      source.bad, tile, bits, tile.begin, tile.count,
      [&](std::size_t begin, std::size_t count, std::size_t word, std::uint64_t* active) {
        return kernels::lion_votes(source.step, source.ties, source.g + begin, source.m + begin,
                                   count, bits + 8 * word, active);
      });
}

// Of the words of a tile, as bytes.
const std::uint8_t* activity_bytes(const Tile& tile) {
  return reinterpret_cast<const std::uint8_t*>(&tile.active);
}

// The most ranks of a node; make_mean refuses more.
constexpr std::size_t kMostShares = 1024;

void join(const NodeSum& source, Tile& tile) {
  const float* from[kMostShares];
  for (std::size_t r = 0; r < source.shares.size(); ++r)
    from[r] = reinterpret_cast<const float*>(source.shares[r]) + (tile.begin - source.begin);
  kernels::sum(from, static_cast<int>(source.shares.size()), tile.count, source.factor,
               tile.values);
}

void join(const NodeSigns& source, Tile& tile) {
  const std::size_t at = tile.begin - source.begin;
  tile.active = 0;
  for (std::size_t w = 0; w * kWord < tile.count; ++w) {
    const std::size_t from = at + w * kWord, bit = from / kWord;
    const std::size_t count = std::min(kWord, tile.count - w * kWord);
    const std::uint16_t* active[kMostShares];
    int number = 0;
    for (const std::byte* share : source.shares) {
      const auto* bits = reinterpret_cast<const std::uint8_t*>(share + 2 * source.capacity);
      if ((bits[bit / 8] >> (bit % 8) & 1) != 0)
        active[number++] = reinterpret_cast<const std::uint16_t*>(share) + from;
    }
    float* to = tile.values + w * kWord;
    if (number == 0) {
      std::fill_n(to, count, 0.0F);
      continue;
    }
    tile.active |= std::uint64_t{1} << w;
    kernels::sum_bf16(active, number, count, static_cast<float>(1.0 / number), to);
  }
}

void add(const Addend& residual, std::size_t begin, std::span<float> values) {
  const std::size_t from = std::max(begin, residual.begin);
  const std::size_t to = std::min(begin + values.size(), residual.begin + residual.values.size());
  for (std::size_t at = from; at < to; ++at)
    values[at - begin] += residual.gain * residual.values[at - residual.begin];
}

struct FillTile {
  Tile& tile;

  bool zero() const {
    std::fill_n(tile.values, tile.count, 0.0F);
    return true;
  }

  bool operator()(const Fill& source) const { return source(tile); }
  bool operator()(const Values& source) const {
    if (source.checked && tile.fallback) return zero();
    // Only read: a codec writes to memory of its own.
    tile.values = const_cast<float*>(source.values) + tile.begin;
    if (!source.checked || !tile.checked) return true;
    const bool good = kernels::all_finite(tile.values, tile.count);
    if (tile.random) tile.active = good ? kernels::activity(tile.values, tile.count) : 0;
    return good || tile.random;
  }
  bool operator()(const Momentum& source) const {
    const float* g = source.g + tile.begin;
    const bool good = !tile.fallback && kernels::all_finite(g, tile.count);
    kernels::momentum(source.step, good ? g : nullptr, source.m + tile.begin, tile.values,
                      tile.count);
    return good || tile.fallback || leave_out(source.exact_bad);
  }
  bool operator()(const PendingMomentum& source) const {
    const float* g = source.g ? source.g + tile.begin : nullptr;
    const bool good = g && !tile.fallback && kernels::all_finite(g, tile.count);
    kernels::zero_one_message(source.step, source.shrink, good ? g : nullptr, source.m + tile.begin,
                              source.pending + tile.begin, tile.values, tile.count);
    return good || !g || tile.fallback || leave_out(source.exact_bad);
  }
  bool operator()(const SignMoments& source) const {
    tile.active = update_moments(source, tile);
    tile.drawn = tile.draw != nullptr;
    tile.bounds = source.b + tile.begin;
    if (tile.random)
      tile.values = source.m + tile.begin;
    else
      kernels::ratio(source.m + tile.begin, tile.bounds, tile.count, tile.values);
    return true;
  }
  bool operator()(const LionVotes& source) const {
    std::uint8_t own[kTile / 8];
    std::uint8_t* bits = tile.ties ? tile.bits : own;
    tile.active = update_votes(source, tile, bits);
    tile.drawn = tile.ties != nullptr;
    if (!tile.drawn) kernels::signs_to_floats(bits, activity_bytes(tile), tile.count, tile.values);
    return true;
  }
  bool operator()(const Displacement& source) const {
    if (tile.fallback) return zero();
    kernels::displacement(source.x_sync + tile.begin, source.x + tile.begin, tile.count,
                          tile.values);
    if (kernels::all_finite(tile.values, tile.count)) return true;
    if (!source.exact_bad.count) return false;
    for_each_block(source.exact_bad.block, tile.begin, tile.count,
                   [&](std::size_t begin, std::size_t count) {
                     float* at = tile.values + (begin - tile.begin);
                     if (kernels::all_finite(at, count)) return;
                     note(source.exact_bad);
                     std::fill_n(at, count, 0.0F);
                   });
    return true;
  }
  template <typename Node>
  bool of_node(const Node& source) const {
    if (tile.fallback) return zero();
    join(source, tile);
    return true;
  }
  bool operator()(const NodeSum& source) const { return of_node(source); }
  bool operator()(const NodeSigns& source) const { return of_node(source); }
  bool operator()(const Corrected& source) const {
    float* const own = tile.values;
    if (!fill(*source.of, tile)) return refill(source, own);
    if (tile.values != own) std::memcpy(own, tile.values, 4 * tile.count);
    tile.values = own;
    return correct(source);
  }
  // Block by block, with what stands for the bad ones.
  bool refill(const Corrected& source, float* own) const {
    tile.values = own;
    for_each_block(source.bad.block, tile.begin, tile.count,
                   [&](std::size_t begin, std::size_t count) {
                     float* to = own + (begin - tile.begin);
                     if (fill_floats(*source.of, begin, count, false, to)) return;
                     note(source.bad);
                     fill_floats(*source.of, begin, count, true, to);
                   });
    return correct(source);
  }
  bool correct(const Corrected& source) const {
    float* const own = tile.values;
    for (const Addend& residual : source.residuals) add(residual, tile.begin, {own, tile.count});
    if (source.live)
      for (std::size_t k = 0; k < tile.count; ++k)
        if (source.live[tile.begin + k] == 0) own[k] = 0;
    return true;
  }
  bool operator()(const RecordedSource& source) const {
    const bool good = fill(*source.of, tile);
    float* to = source.values + tile.begin;
    if (tile.ties) {
      cast_votes(tile);
      kernels::signs_to_floats(tile.bits, activity_bytes(tile), tile.count, to);
    } else if (tile.random)
      kernels::ratio(tile.values, tile.bounds, tile.count, to);
    else
      std::memcpy(to, tile.values, 4 * tile.count);
    return good;
  }
};

struct TermsFrom {
  std::size_t begin;

  template <typename Other>
  std::optional<kernels::Terms> operator()(const Other&) const {
    return std::nullopt;
  }
  std::optional<kernels::Terms> operator()(const Values& source) const {
    if (source.checked) return std::nullopt;
    return source.values + begin;
  }
  std::optional<kernels::Terms> operator()(const Momentum& source) const {
    return kernels::Terms(source.m + begin, source.step.beta1, source.g + begin,
                          source.step.one_minus_beta1, kernels::Bounded::kSecond);
  }
  std::optional<kernels::Terms> operator()(const Displacement& source) const {
    return kernels::Terms(source.x_sync + begin, 1, source.x + begin, -1, kernels::Bounded::kSum);
  }
};

struct TakeTile {
  std::size_t begin;
  std::span<const float> mean;

  void operator()(const Take& sink) const { sink(begin, mean); }
  void operator()(const Store& sink) const {
    std::memcpy(sink.to + begin, mean.data(), mean.size_bytes());
  }
  // Bad blocks are left.
  template <typename Update>
  void where_finite(const BadBlocks& bad, const Update& update) const {
    for_each_finite(bad, begin, mean, update, [](std::size_t, std::size_t) {});
  }
  void operator()(const SgdmUpdate& sink) const {
    where_finite(sink.bad, [&](std::size_t at, std::span<const float> part) {
      kernels::sgdm(sink.step, part.data(), sink.m + at, sink.x + at, part.size());
    });
  }
  void operator()(const LionUpdate& sink) const {
    where_finite(sink.bad, [&](std::size_t at, std::span<const float> part) {
      kernels::lion_step(sink.step, part.data(), sink.m + at, sink.x + at, part.size());
    });
  }
  void operator()(const AdamWUpdate& sink) const {
    where_finite(sink.bad, [&](std::size_t at, std::span<const float> part) {
      for (const AdamPart& one : sink.parts) {
        const std::size_t from = std::max(at, one.begin);
        const std::size_t to = std::min(at + part.size(), one.begin + one.count);
        if (from < to)
          kernels::adamw(one.step, part.data() + (from - at), sink.m + from, sink.v + from,
                         sink.x + from, to - from);
      }
    });
  }
  void operator()(const MomentsUpdate& sink) const {
    for_each_finite(
        sink.bad, begin, mean,
        [&](std::size_t at, std::span<const float> part) {
          kernels::Lanes unused;
          kernels::adam_moments(sink.step, part.data(), sink.m + at, sink.v + at, part.size(),
                                unused);
        },
        [&](std::size_t at, std::size_t count) {
          std::memset(sink.left + at / kWord, 1, (count + kWord - 1) / kWord);
        });
  }
  void operator()(const MomentumStore& sink) const {
    kernels::Lanes unused;
    kernels::measure(mean.data(), nullptr, sink.v + begin, mean.size(), kernels::Norm::kL1,
                     sink.m + begin, unused);
  }
  void operator()(const MomentumApply& sink) const {
    for_each_floor(sink.floors, begin, mean,
                   [&](std::size_t at, std::span<const float> part, float floor) {
                     kernels::one_bit_apply(with_floor(sink.step, floor), part.data(), sink.m + at,
                                            sink.v + at, sink.x + at, part.size());
                   });
  }
  void operator()(const PendingSync& sink) const {
    for_each_floor(
        sink.floors, begin, mean, [&](std::size_t at, std::span<const float> part, float floor) {
          kernels::zero_one_sync(with_floor(sink.step, floor), sink.inverse_gain, part.data(),
                                 sink.m ? sink.m + at : nullptr, sink.v + at, sink.x_sync + at,
                                 sink.x + at, part.size());
        });
  }
  void operator()(const SignUpdate& sink) const {
    kernels::birder_update(sink.lr, sink.decay, mean.data(), sink.x + begin, mean.size());
  }
  void operator()(const OuterUpdate& sink) const {
    kernels::outer_update(sink.step, mean.data(), sink.momentum ? sink.momentum + begin : nullptr,
                          sink.snapshot ? sink.snapshot + begin : nullptr, sink.x_sync + begin,
                          sink.x + begin, mean.size());
  }
  void operator()(const RecordedSink& sink) const {
    std::memcpy(sink.values + begin, mean.data(), mean.size_bytes());
    take(*sink.of, begin, mean);
  }
};

struct RunBlock {
  std::size_t begin, count;
  float floor;

  void operator()(const LocalStep& pass) const {
    const float* g = pass.g + begin;
    if (!kernels::all_finite(g, count)) {
      g = nullptr;
      pass.bad->fetch_add(1, std::memory_order_relaxed);
    }
    kernels::zero_one_local(with_floor(pass.step, floor), pass.shrink, g, pass.m + begin,
                            pass.v + begin, pass.pending + begin, pass.x + begin, count);
  }
  void operator()(const MomentsApply& pass) const {
    const std::uint8_t* left = pass.left + begin / kWord;
    if (std::any_of(left, left + (count + kWord - 1) / kWord, [](auto word) { return word != 0; }))
      return;
    kernels::adam_apply(with_floor(pass.step, floor), pass.m + begin, pass.v + begin,
                        pass.x + begin, pass.copy + begin, count);
  }
};

}  // namespace

bool fill(const Source& source, Tile& tile) { return std::visit(FillTile{tile}, source); }

bool fill_floats(const Source& source, std::size_t begin, std::size_t count, bool fallback,
                 float* out) {
  bool good = true;
  for (std::size_t at = 0; at < count; at += kTile) {
    Tile tile{.begin = begin + at,
              .count = std::min(kTile, count - at),
              .values = out + at,
              .fallback = fallback};
    good &= fill(source, tile);
    if (tile.values != out + at) std::memcpy(out + at, tile.values, 4 * tile.count);
  }
  return good;
}

void cast_votes(Tile& tile) {
  if (!tile.drawn) kernels::vote(*tile.ties, tile.values, tile.count, tile.bits);
  tile.drawn = true;
}

std::optional<kernels::Terms> terms_of(const Source& source, std::size_t begin) {
  return std::visit(TermsFrom{begin}, source);
}

void take(const Sink& sink, std::size_t begin, std::span<const float> mean) {
  std::visit(TakeTile{begin, mean}, sink);
}

void HostDevice::run(const Pass& pass) {
  std::visit([this](const auto& one) { run_all(one); }, pass);
}

template <typename Blocks>
void HostDevice::run_all(const Blocks& pass) {
  const FloorTable& table = pass.floors;
  pool_.run(table.begins.size(), [&](std::size_t block, int) {
    const std::size_t begin = table.begins[block];
    RunBlock{begin, table.end(block) - begin, table.floors[block]}(pass);
  });
}

void HostDevice::run(const Source& source, const Sink& sink, std::size_t elements, float* spent) {
  pool_.run((elements + kTile - 1) / kTile, [&](std::size_t number, int thread) {
    const std::size_t begin = number * kTile;
    Tile tile{
        .begin = begin, .count = std::min(kTile, elements - begin), .values = scratch(thread)};
    fill(source, tile);
    take(sink, begin, {tile.values, tile.count});
    if (spent) std::memset(spent + begin, 0, 4 * tile.count);
  });
}

}  // namespace laconic::inline device
