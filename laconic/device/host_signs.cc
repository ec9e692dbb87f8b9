#include <algorithm>
#include <cstring>

#include "laconic/device/host.h"
#include "laconic/kernels/random_sign.h"
#include "laconic/kernels/vote.h"

// Signs without residuals: drawn, voted, counted and read.
namespace laconic::inline device {
namespace {

constexpr std::size_t kWord = 64;
constexpr std::size_t kTileWords = kTile / kWord;

constexpr std::size_t words_of(std::size_t count) { return (count + kWord - 1) / kWord; }

// A tile has at most 64 words, so its activity is one integer.
void store_activity(std::uint64_t active, std::size_t count, std::uint8_t* out) {
  const std::size_t words = words_of(count);
  if (words < kWord) active &= (std::uint64_t{1} << words) - 1;
  std::memcpy(out, &active, (words + 7) / 8);
}

}  // namespace

std::size_t HostDevice::signs_workspace_size(std::size_t messages) {
  const auto planes = static_cast<std::size_t>(kernels::planes_of(static_cast<int>(messages)));
  return 2 * messages * sizeof(void*) + kTileWords * (8 * planes + 2);
}

// Calls work(tile, at) for the tiles of a job, each like `blank`, `at` counted from the range's
// beginning; work fills the tile. Its activity is stored afterwards.
template <typename Job, typename Work>
void HostDevice::for_each_sign_tile(const Job& job, Tile blank, const Work& work) {
  blank.random = true;
  for_each_piece(pool_, job.range.begin, job.range.count, kTile,
                 [&](std::size_t begin, std::size_t count, int thread) {
                   const std::size_t at = begin - job.range.begin;
                   Tile tile = blank;
                   tile.begin = begin;
                   tile.count = count;
                   tile.values = scratch(thread);
                   work(tile, at);
                   store_activity(tile.active, count, job.active + at / kWord / 8);
                 });
}

void HostDevice::share(const ShareSigns& job) {
  for_each_sign_tile(job, {}, [&](Tile& tile, std::size_t at) {
    fill(job.source, tile);
    kernels::ratio_to_bf16(tile.values, tile.bounds, tile.count, job.out + at);
  });
}

void HostDevice::draw(const DrawSigns& job) {
  for_each_sign_tile(job, {.draw = &job.draw}, [&](Tile& tile, std::size_t at) {
    const std::size_t words = words_of(tile.count);
    tile.bits = job.bits + at / 8;
    if (job.wanted) {
      tile.wanted = 0;
      for (std::size_t w = 0; w < words; ++w)
        tile.wanted |= std::uint64_t{job.wanted[at / kWord + w] != 0} << w;
    }
    fill(job.source, tile);
    if (tile.drawn) return;
    if (!job.wanted)
      return kernels::draw(job.draw, tile.begin, tile.values, tile.bounds, tile.count, tile.bits);
    for (std::size_t w = 0; w < words; ++w)
      if ((tile.wanted >> w & 1) != 0)
        kernels::draw(job.draw, tile.begin + w * kWord, tile.values + w * kWord,
                      tile.bounds ? tile.bounds + w * kWord : nullptr,
                      std::min(kWord, tile.count - w * kWord), tile.bits + 8 * w);
  });
}

void HostDevice::vote(const CastVotes& job) {
  for_each_sign_tile(job, {.ties = &job.ties}, [&](Tile& tile, std::size_t at) {
    tile.bits = job.bits + at / 8;
    fill(job.source, tile);
    cast_votes(tile);
  });
}

namespace {

// What the messages of a job have in one tile. Memory after the pointers holds counts and voters.
struct Tally {
  Tally(const CountSigns& job, std::size_t word, std::size_t words, std::byte* memory)
      : words(words), bits(reinterpret_cast<const std::uint8_t**>(memory)) {
    const std::size_t messages = job.bits.size();
    const auto planes = static_cast<std::size_t>(std::max(job.planes, 1));
    extras = bits + messages;
    for (std::size_t r = 0; r < messages; ++r) {
      bits[r] = job.bits[r] + 8 * planes * word;
      extras[r] = job.extras[r] + (job.planes > 0 ? 2 * word : word / 8);
    }
    counts = reinterpret_cast<std::uint8_t*>(extras + messages);
    voters = reinterpret_cast<std::uint16_t*>(counts + kTileWords * plane_bytes(job));
  }
  static std::size_t plane_bytes(const CountSigns& job) {
    return 8 * static_cast<std::size_t>(job.planes_out);
  }

  void count(const CountSigns& job) const {
    const int messages = static_cast<int>(job.bits.size());
    if (job.planes > 0)
      kernels::add_counts(bits, extras, messages, job.planes, words, job.planes_out, counts,
                          voters);
    else
      kernels::count_signs(bits, extras, messages, words, counts, voters);
  }

  std::size_t words;
  const std::uint8_t **bits, **extras;
  std::uint8_t* counts;
  std::uint16_t* voters;
};

// The signs of a tile, and its activity.
std::uint64_t decide(const CountSigns& job, const Tally& tally, std::size_t begin,
                     std::size_t count, std::uint8_t* out) {
  if (job.ties && job.planes == 0)
    return kernels::majority(*job.ties, tally.bits, tally.extras, static_cast<int>(job.bits.size()),
                             tally.words, out);
  tally.count(job);
  if (job.ties)
    return kernels::majority_of(*job.ties, tally.counts, tally.voters, job.planes_out, tally.words,
                                out);
  kernels::redraw(*job.redraw, begin, tally.counts, tally.voters, job.planes_out, count, out);
  std::uint64_t any = 0;
  for (std::size_t w = 0; w < tally.words; ++w) any |= std::uint64_t{tally.voters[w] != 0} << w;
  return any;
}

}  // namespace

void HostDevice::count(const CountSigns& job) {
  const Range& range = job.range;
  for_each_piece(pool_, range.begin, range.count, kTile,
                 [&](std::size_t begin, std::size_t count, int thread) {
                   const std::size_t at = begin - range.begin, word = at / kWord;
                   const Tally tally(job, word, words_of(count), workspace(thread));
                   if (job.redraw || job.ties)
                     return store_activity(decide(job, tally, begin, count, job.out + at / 8),
                                           count, job.out_extras + word / 8);
                   tally.count(job);
                   const std::size_t bytes = Tally::plane_bytes(job);
                   std::memcpy(job.out + word * bytes, tally.counts, tally.words * bytes);
                   std::memcpy(job.out_extras + 2 * word, tally.voters, 2 * tally.words);
                 });
}

void HostDevice::read(const ReadSigns& job) {
  const Range& range = job.range;
  const auto* update = std::get_if<SignUpdate>(&job.sink);
  if (update && job.planes == 0)
    return for_each_piece(
        pool_, range.begin, range.count, kTile, [&](std::size_t begin, std::size_t count, int) {
          const std::size_t at = begin - range.begin;
          kernels::sign_update(update->lr, update->decay, job.bits + at / 8,
                               job.extras + at / kWord / 8, update->x + begin, count);
        });
  const auto read_run = [&](std::size_t begin, std::size_t count, float* out) {
    const std::size_t at = begin - range.begin, word = at / kWord;
    if (job.planes > 0) {
      std::uint16_t voters[kRun / kWord];
      std::memcpy(voters, job.extras + 2 * word, 2 * words_of(count));
      kernels::counts_to_floats(job.bits + word * 8 * static_cast<std::size_t>(job.planes), voters,
                                job.planes, count, out);
    } else {
      kernels::signs_to_floats(job.bits + at / 8, job.extras + word / 8, count, out);
    }
    take(job.sink, begin, {out, count});
  };
  for_each_piece(pool_, range.begin, range.count, kTile,
                 [&](std::size_t begin, std::size_t count, int thread) {
                   for (std::size_t done = 0; done < count; done += kRun)
                     read_run(begin + done, std::min(kRun, count - done), scratch(thread));
                 });
}

}  // namespace laconic::inline device
