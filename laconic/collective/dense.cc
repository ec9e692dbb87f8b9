#include "laconic/kernels/dense.h"

#include <cstring>

#include "laconic/collective/float_shares.h"

namespace laconic {
namespace {

// The exact mean: (sum over ranks) * (1/n), fp32 or rounded to bf16 on the wire between nodes.
class DenseCoder final : public FloatShares {
 public:
  DenseCoder(const MeanConfig& config, const Place& place, Pool& pool)
      : FloatShares(pool, config, 1.0F),
        tile_(tile_of(config)),
        bf16_(config.bf16),
        factor_(static_cast<float>(1.0 / (static_cast<double>(place.voices) * place.per_node))),
        parts_(static_cast<std::size_t>(place.voices) * static_cast<std::size_t>(pool.threads())) {}

  std::size_t coded_size(std::size_t capacity) const override { return width() * capacity; }
  std::size_t served_size(std::size_t capacity) const override { return width() * capacity; }
  std::string describe() const override { return bf16_ ? "dense mean, bf16" : "dense mean, fp32"; }

  void code(const Range& range, Fill source, std::span<std::byte> out) override {
    for_each_piece(pool_, range.begin, range.count, tile_,
                   [&](std::size_t begin, std::size_t count, int thread) {
                     std::byte* to = out.data() + width() * (begin - range.begin);
                     float* floats = bf16_ ? scratch(thread) : reinterpret_cast<float*>(to);
                     fill_floats(source, begin, count, false, floats);
                     if (bf16_)
                       kernels::to_bf16(floats, count, reinterpret_cast<std::uint16_t*>(to));
                     if (!pending_.empty()) std::memset(pending_.data() + begin, 0, 4 * count);
                   });
  }

  void serve(const Range& range, std::span<const std::byte* const> coded,
             std::span<std::byte> out) override {
    for_each_piece(pool_, range.begin, range.count, tile_,
                   [&](std::size_t begin, std::size_t count, int thread) {
                     const std::size_t at = width() * (begin - range.begin);
                     add(coded, at, count, thread, out.data() + at);
                   });
  }

  void take(const Range& range, std::span<const std::byte> served, int, Take take) override {
    for_each_piece(pool_, range.begin, range.count, tile_,
                   [&](std::size_t begin, std::size_t count, int thread) {
                     const std::byte* from = served.data() + width() * (begin - range.begin);
                     const float* floats = reinterpret_cast<const float*>(from);
                     if (bf16_) {
                       kernels::from_bf16(reinterpret_cast<const std::uint16_t*>(from), count,
                                          scratch(thread));
                       floats = scratch(thread);
                     }
                     take(begin, {floats, count});
                   });
  }

 private:
  std::size_t width() const noexcept { return bf16_ ? 2 : 4; }

  void add(std::span<const std::byte* const> coded, std::size_t at, std::size_t count, int thread,
           std::byte* out) {
    const void** from = parts_.data() + coded.size() * static_cast<std::size_t>(thread);
    for (std::size_t r = 0; r < coded.size(); ++r) from[r] = coded[r] + at;
    const int ranks = static_cast<int>(coded.size());
    if (!bf16_) {
      kernels::sum(reinterpret_cast<const float* const*>(from), ranks, count, factor_,
                   reinterpret_cast<float*>(out));
      return;
    }
    kernels::sum_bf16(reinterpret_cast<const std::uint16_t* const*>(from), ranks, count, factor_,
                      scratch(thread));
    kernels::to_bf16(scratch(thread), count, reinterpret_cast<std::uint16_t*>(out));
  }

  std::size_t tile_;
  bool bf16_;
  float factor_;
  std::vector<const void*> parts_;
};

}  // namespace

std::unique_ptr<Coder> make_dense_coder(const MeanConfig& config, const Place& place, Pool& pool) {
  return std::make_unique<DenseCoder>(config, place, pool);
}

}  // namespace laconic
