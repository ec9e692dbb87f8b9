#include "laconic/kernels/random_sign.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "laconic/collective/coder.h"
#include "laconic/collective/layout.h"
#include "laconic/core/buffer.h"
#include "laconic/core/error.h"
#include "laconic/kernels/dense.h"
#include "laconic/wire/chunk.h"

namespace laconic {
namespace {

constexpr std::size_t kTile = Mean::kTile;
constexpr std::size_t kTileWords = kTile / wire::kWord;

const std::uint8_t* as_bits(const std::byte* p) { return reinterpret_cast<const std::uint8_t*>(p); }
std::uint8_t* as_bits(std::byte* p) { return reinterpret_cast<std::uint8_t*>(p); }

// The consensus of random signs in two rounds. Every node (a rank where there is no hierarchy) sends one
// random bit per element, +1 with probability (1 + u)/2; the owner counts the +1 among the nodes on
// which a word is active, and either draws again in proportion (two-round) or sends the count
// itself (count).
class RandomSignCoder final : public Coder {
 public:
  RandomSignCoder(const MeanConfig& config, const Place& place, Pool& pool)
      : Coder(pool),
        config_(config),
        place_(place),
        planes_(kernels::planes_of(place.nodes)),
        counts_(threads() * kTileWords * 8 * static_cast<std::size_t>(planes_)),
        voters_(threads() * kTileWords),
        bits_(threads() * static_cast<std::size_t>(place.nodes)),
        active_(bits_.size()) {}

  void begin(const Round& round) override {
    Coder::begin(round);
    draw_ = draw_of(config_, round, place_.rank);
    redraw_ = draw_;
    redraw_.stream = Stream::kOwnerDraw;
  }

  std::string describe() const override {
    return counts() ? "random-sign mean, counts" : "random-sign mean, two rounds";
  }

  Sizes sizes(std::size_t capacity) const override {
    return random_sign_sizes(config_.form, place_.nodes, capacity);
  }
  // Inside a node travel u in bf16 and a byte array of activity.
  void share(const Range& range, Fill fill, std::span<std::byte> out) override;
  void join(const Range& range, std::span<const std::byte* const> shares, Tile& tile) override;
  void encode(const Range& range, Fill source, std::span<std::byte> out) override;
  void combine(const Range& range, std::span<const std::byte* const> messages,
               std::span<std::byte> out) override;
  void decode(const Range& range, std::span<const std::byte> message, int owner,
              Take take) override;

 private:
  bool counts() const { return config_.form == RandomForm::kCount; }
  std::size_t threads() const { return static_cast<std::size_t>(pool_.threads()); }

  MeanConfig config_;
  Place place_;
  int planes_;
  Buffer<std::uint8_t> counts_;
  Buffer<std::uint16_t> voters_;
  std::vector<const std::uint8_t*> bits_, active_;
  kernels::Draw draw_, redraw_;
};

// A tile has at most 64 words, so its activity is one integer.
void store_activity(std::uint64_t active, std::size_t count, std::byte* out) {
  const std::size_t words = wire::words(count);
  if (words < 64) active &= (std::uint64_t{1} << words) - 1;
  std::memcpy(out, &active, (words + 7) / 8);
}

void RandomSignCoder::share(const Range& range, Fill fill, std::span<std::byte> out) {
  for_each_piece(pool_, range.begin, range.count, kTile,
                 [&](std::size_t begin, std::size_t count, int thread) {
                   const std::size_t at = begin - range.begin;
                   Tile tile{
                       .begin = begin, .count = count, .values = scratch(thread), .random = true};
                   fill(tile);
                   kernels::ratio_to_bf16(tile.values, tile.bounds, count,
                                          reinterpret_cast<std::uint16_t*>(out.data() + 2 * at));
                   store_activity(tile.active, count,
                                  out.data() + 2 * range.capacity + wire::activity_size(at));
                 });
}

// The node's u: its mean over the ranks on which the word is active.
void RandomSignCoder::join(const Range& range, std::span<const std::byte* const> shares,
                           Tile& tile) {
  const std::size_t at = tile.begin - range.begin;
  tile.active = 0;
  for (std::size_t w = 0; w < wire::words(tile.count); ++w) {
    const std::size_t from = at + w * wire::kWord;
    const std::size_t count = std::min(wire::kWord, tile.count - w * wire::kWord);
    const std::uint16_t* active[1024];
    int number = 0;
    for (const std::byte* share : shares) {
      const auto bits = as_bits(share + 2 * range.capacity);
      if ((bits[from / wire::kWord / 8] >> (from / wire::kWord % 8) & 1) != 0)
        active[number++] = reinterpret_cast<const std::uint16_t*>(share) + from;
    }
    float* to = tile.values + w * wire::kWord;
    if (number == 0) {
      std::fill_n(to, count, 0.0F);
      continue;
    }
    tile.active |= std::uint64_t{1} << w;
    kernels::sum_bf16(active, number, count, static_cast<float>(1.0 / number), to);
  }
}

void RandomSignCoder::encode(const Range& range, Fill source, std::span<std::byte> out) {
  const auto to = wire::parts(out, range.capacity);
  std::memset(to.bits, 0, out.size() - wire::kHeaderSize);
  for_each_piece(pool_, range.begin, range.count, kTile,
                 [&](std::size_t begin, std::size_t count, int thread) {
                   const std::size_t at = begin - range.begin;
                   Tile tile{.begin = begin,
                             .count = count,
                             .values = scratch(thread),
                             .random = true,
                             .draw = &draw_,
                             .bits = as_bits(to.bits + at / 8)};
                   source(tile);
                   if (!tile.drawn)
                     kernels::draw(draw_, begin, tile.values, tile.bounds, count, tile.bits);
                   store_activity(tile.active, count, to.extras + wire::activity_size(at));
                 });
  wire::seal(out, header(wire::Form::kRandomSigns, range));
}

void RandomSignCoder::combine(const Range& range, std::span<const std::byte* const> messages,
                              std::span<std::byte> out) {
  const std::size_t size = sizes(range.capacity).up;
  for (std::size_t r = 0; r < messages.size(); ++r)
    wire::check({messages[r], size}, size, header(wire::Form::kRandomSigns, range),
                static_cast<int>(r));
  const auto to = wire::parts(out, range.capacity, counts() ? planes_ : 1);
  const auto plane_bytes = 8 * static_cast<std::size_t>(planes_);
  std::memset(to.bits, 0, out.size() - wire::kHeaderSize);
  for_each_piece(pool_, range.begin, range.count, kTile,
                 [&](std::size_t begin, std::size_t count, int thread) {
                   const std::size_t at = begin - range.begin, word = at / wire::kWord;
                   const auto slot = static_cast<std::size_t>(thread);
                   const std::uint8_t** bits = bits_.data() + slot * messages.size();
                   const std::uint8_t** active = active_.data() + slot * messages.size();
                   for (std::size_t r = 0; r < messages.size(); ++r) {
                     const auto in = wire::parts(std::span(messages[r], size), range.capacity);
                     bits[r] = as_bits(in.bits + at / 8);
                     active[r] = as_bits(in.extras + wire::activity_size(at));
                   }
                   std::uint8_t* planes = counts_.data() + slot * kTileWords * plane_bytes;
                   std::uint16_t* voters = voters_.data() + slot * kTileWords;
                   const std::size_t words = wire::words(count);
                   kernels::count_signs(bits, active, static_cast<int>(messages.size()), words,
                                        planes, voters);
                   if (counts()) {
                     std::memcpy(to.bits + word * plane_bytes, planes, words * plane_bytes);
                     std::memcpy(to.extras + 2 * word, voters, 2 * words);
                     return;
                   }
                   kernels::redraw(redraw_, begin, planes, voters, planes_, count,
                                   as_bits(to.bits + at / 8));
                   std::uint64_t any = 0;
                   for (std::size_t w = 0; w < words; ++w)
                     any |= std::uint64_t{voters[w] != 0} << w;
                   store_activity(any, count, to.extras + wire::activity_size(at));
                 });
  wire::seal(out, header(counts() ? wire::Form::kCounts : wire::Form::kRandomSigns, range));
}

void RandomSignCoder::decode(const Range& range, std::span<const std::byte> message, int owner,
                             Take take) {
  wire::check(message, sizes(range.capacity).down,
              header(counts() ? wire::Form::kCounts : wire::Form::kRandomSigns, range), owner);
  const auto in = wire::parts(message, range.capacity, counts() ? planes_ : 1);
  for_each_piece(
      pool_, range.begin, range.count, kTile,
      [&](std::size_t begin, std::size_t count, int thread) {
        const std::size_t at = begin - range.begin, word = at / wire::kWord;
        if (counts()) {
          std::uint16_t* voters = voters_.data() + static_cast<std::size_t>(thread) * kTileWords;
          std::memcpy(voters, in.extras + 2 * word, 2 * wire::words(count));
          kernels::counts_to_floats(as_bits(in.bits + word * 8 * static_cast<std::size_t>(planes_)),
                                    voters, planes_, count, scratch(thread));
        } else {
          kernels::signs_to_floats(as_bits(in.bits + at / 8),
                                   as_bits(in.extras + wire::activity_size(at)), count,
                                   scratch(thread));
        }
        take(begin, {scratch(thread), count});
      });
}

}  // namespace

kernels::Draw draw_of(const MeanConfig& config, const Round& round, int rank) {
  return {.key = {config.seed, static_cast<std::uint32_t>(round.step)},
          .rank = static_cast<std::uint32_t>(rank),
          .bucket = config.bucket};
}

std::unique_ptr<Coder> make_random_sign_coder(const MeanConfig& config, const Place& place,
                                              Pool& pool) {
  return std::make_unique<RandomSignCoder>(config, place, pool);
}

}  // namespace laconic
