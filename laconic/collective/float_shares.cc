#include "laconic/collective/float_shares.h"

#include <algorithm>
#include <cstring>

#include "laconic/core/error.h"
#include "laconic/kernels/dense.h"

namespace laconic {

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

void FloatShares::share(const Range& range, Fill fill, std::span<std::byte> out) {
  auto* floats = reinterpret_cast<float*>(out.data());
  const std::size_t piece = block_ == 0 ? range.count : block_;
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

void FloatShares::join(const Range& range, std::span<const std::byte* const> shares, Tile& tile) {
  constexpr std::size_t kMost = 1024;
  const float* from[kMost];
  if (shares.size() > kMost)
    fail(Code::kInvalidArgument, "{} ranks a node, at most {} are supported", shares.size(), kMost);
  for (std::size_t r = 0; r < shares.size(); ++r)
    from[r] = reinterpret_cast<const float*>(shares[r]) + (tile.begin - range.begin);
  kernels::sum(from, static_cast<int>(shares.size()), tile.count, join_factor_, tile.values);
}

}  // namespace laconic
