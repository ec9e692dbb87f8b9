#include "laconic/device/cuda/block.h"

// Random signs and votes: moments of a tile, one bit per element and one activity bit per word. A
// piece with a gradient that is not finite keeps its moments, and its words are not active.
namespace laconic::cuda {
namespace {

constexpr int kGroup = 8;  // elements that share a random number

struct SignsShared {
  float g[kTile];
  std::uint32_t random[kTile / 2];  // 16 bits per element
  int bad[kTileWords];              // of each piece
  int active[kTileWords];           // of each word
};

class SignsTile {
 public:
  const SignsArguments& of;
  SignsShared& s;
  const Span span;
  const int piece;

  __device__ SignsTile(const SignsArguments& arguments, SignsShared& shared)
      : of(arguments),
        s(shared),
        span(encoded_span(of.rows)),
        piece(of.m == nullptr || of.bad.piece == 0 ? kTile : static_cast<int>(of.bad.piece)) {}

  __device__ bool has_moments() const { return of.m != nullptr; }

  // Reads g, finds bad pieces and active words. A barrier follows.
  __device__ void read() {
    if (thread() < kTileWords) s.bad[thread()] = s.active[thread()] = 0;
    __syncthreads();
    Cursor cursor(piece);
    LACONIC_ROLLED
    for (int k = thread(); k < span.count; k += kThreads) {
      const int j = cursor.move_to(k);
      const float g = of.g[span.at + k];
      s.g[k] = g;
      if (!is_finite(g) && (has_moments() || of.checked != 0)) atomicOr(&s.bad[j], 1);
      if (g != 0 || (!has_moments() && of.checked == 0)) atomicOr(&s.active[k / kWord], 1);
    }
  }
  // After the barrier.
  __device__ void count_bad() const {
    if (has_moments() && thread() * piece < span.count && s.bad[thread()] != 0)
      atomicAdd(of.bad.count, Counter{1});
  }
  __device__ bool is_active(int word, int j) const { return s.active[word] != 0 && s.bad[j] == 0; }

  // Activity, a bit per word in whole bytes, of the words that the message has room for.
  __device__ void store_activity(std::uint8_t* to) const {
    const int words = static_cast<int>(span.room) / kWord;
    if (thread() >= (words + 7) / 8) return;
    Cursor cursor(piece);
    std::uint32_t byte = 0;
    for (int word = 8 * thread(); word < 8 * thread() + 8 && word < words; ++word)
      if (is_active(word, cursor.move_to(word * kWord))) byte |= 1U << word % 8;
    to[span.begin / kWord / 8 + thread()] = static_cast<std::uint8_t>(byte);
  }
};

// The random numbers of all words that are wanted.
__device__ void fill_random(const SignsTile& tile) {
  const SignsArguments& of = tile.of;
  for (int group = thread(); group * kGroup < tile.span.count; group += kThreads) {
    if (of.wanted != nullptr && of.wanted[(tile.span.begin + group * kGroup) / kWord] == 0)
      continue;
    const PhiloxCounter random =
        philox({static_cast<std::uint32_t>(of.draw.stream), of.draw.rank, of.draw.bucket,
                static_cast<std::uint32_t>((tile.span.at + group * kGroup) / kGroup)},
               of.draw.key);
    LACONIC_UNROLL
    for (int i = 0; i < 4; ++i) tile.s.random[group * 4 + i] = random[i];
  }
}

__device__ float uniform_at(const SignsTile& tile, int k) {
  return uniform_of(tile.s.random[k / 2] >> (k % 2 * 16) & 0xFFFF);
}

// The moments of element k, updated unless its piece is bad. Values have none: they are within 1.
struct Moments {
  float m, b;
};
__device__ Moments next_moments_at(const SignsTile& tile, int k, int j) {
  const SignsArguments& of = tile.of;
  if (!tile.has_moments()) return {tile.s.g[k], 1.0F};
  const std::int64_t at = tile.span.at + k;
  Moments next{of.m[at], of.b[at]};
  if (tile.s.bad[j] != 0) return next;
  next_moments(of.moments, tile.s.g[k], next.m, next.b);
  of.m[at] = next.m;
  of.b[at] = next.b;
  return next;
}

// Whether element k of a piece that is not bad votes +1; m is updated.
__device__ bool next_vote_at(const SignsTile& tile, int k) {
  const SignsArguments& of = tile.of;
  const bool tie = tie_is_plus(of.ties, static_cast<std::uint64_t>(k));
  if (!tile.has_moments()) return votes_plus(tile.s.g[k], tie);
  float m = of.m[tile.span.at + k];
  const float c = next_lion(of.votes, tile.s.g[k], m);
  of.m[tile.span.at + k] = m;
  return votes_plus(c, tie);
}

}  // namespace

LACONIC_KERNEL draw_signs(SignsArguments of) {
  __shared__ SignsShared shared;
  SignsTile tile(of, shared);
  tile.read();
  fill_random(tile);
  __syncthreads();
  tile.count_bad();
  std::uint8_t* out = row_message(of.out.payload, of.out.stride);
  auto* words = reinterpret_cast<std::uint32_t*>(out);
  Cursor cursor(tile.piece);
  LACONIC_ROLLED
  for (int k = thread(); k < tile.span.room; k += kThreads) {
    const int j = cursor.move_to(k);
    const std::int64_t in_row = tile.span.begin + k;
    bool plus = false;
    if (k < tile.span.count) {
      const Moments next = next_moments_at(tile, k, j);
      const bool drawn = !tile.has_moments() || shared.bad[j] == 0;
      const bool wanted = of.wanted == nullptr || of.wanted[in_row / kWord] != 0;
      plus = drawn && wanted && is_plus(uniform_at(tile, k), next.m, next.b);
      if (of.recorded != nullptr) of.recorded[tile.span.at + k] = ratio_of(next.m, next.b);
    }
    const std::uint32_t word = ballot(plus);
    if (k % kWarp == 0) words[in_row / 32] = word;
  }
  tile.store_activity(out + whole_words(of.rows.capacity) / 8);
}

LACONIC_KERNEL cast_votes(SignsArguments of) {
  __shared__ SignsShared shared;
  SignsTile tile(of, shared);
  tile.read();
  __syncthreads();
  tile.count_bad();
  std::uint8_t* out = row_message(of.out.payload, of.out.stride);
  auto* words = reinterpret_cast<std::uint32_t*>(out);
  Cursor cursor(tile.piece);
  LACONIC_ROLLED
  for (int k = thread(); k < tile.span.room; k += kThreads) {
    const int j = cursor.move_to(k);
    bool plus = false;
    if (k < tile.span.count) {
      plus = (!tile.has_moments() || shared.bad[j] == 0) && next_vote_at(tile, k);
      if (of.recorded != nullptr)
        of.recorded[tile.span.at + k] = !tile.is_active(k / kWord, j) ? 0.0F : plus ? 1.0F : -1.0F;
    }
    const std::uint32_t word = ballot(plus);
    if (k % kWarp == 0) words[(tile.span.begin + k) / 32] = word;
  }
  tile.store_activity(out + whole_words(of.rows.capacity) / 8);
}

LACONIC_KERNEL share_signs(SignsArguments of) {
  __shared__ SignsShared shared;
  SignsTile tile(of, shared);
  tile.read();
  __syncthreads();
  tile.count_bad();
  std::uint8_t* out = row_message(of.out.payload, of.out.stride);
  auto* ratios = reinterpret_cast<std::uint16_t*>(out);
  const int room = static_cast<int>(smaller(of.rows.capacity - tile.span.begin, kTile));
  Cursor cursor(tile.piece);
  LACONIC_ROLLED
  for (int k = thread(); k < room; k += kThreads) {
    const int j = cursor.move_to(k);
    float ratio = 0;
    if (k < tile.span.count) {
      const Moments next = next_moments_at(tile, k, j);
      ratio = ratio_of(next.m, next.b);
      if (of.recorded != nullptr) of.recorded[tile.span.at + k] = ratio;
    }
    ratios[tile.span.begin + k] = bf16_of(ratio);
  }
  tile.store_activity(out + 2 * of.rows.capacity);
}

}  // namespace laconic::cuda
