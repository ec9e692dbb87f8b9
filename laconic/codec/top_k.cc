#include "laconic/kernels/top_k.h"

#include <algorithm>
#include <cstring>

#include "laconic/codec/largest_scale.h"
#include "laconic/core/error.h"

namespace laconic::inline codec {
namespace {

using kernels::Integers;
using wire::kTopKBlock;
static_assert(kTopKBlock == kernels::kTopKBlock && kTopKBlock == Codec::kTile);

// The k elements of largest magnitude of every 4096, as 4-bit integers with one scale per block;
// all others decode to 0. Scales are those of `int4`.
class TopK final : public LargestScale<TopK> {
 public:
  explicit TopK(const CodecOptions& options)
      : LargestScale(kernels::kTopKBits), k_(options.top_k) {}

  std::string_view name() const noexcept override { return "top-k"; }
  // The mean of sparse blocks is dense: to keep k of it would lose much.
  std::string_view way_back() const noexcept override { return "int8"; }
  std::string describe() const override {
    return fmt::format("top-k mean, {} of {} elements", k_, kTopKBlock);
  }
  std::optional<wire::Form> form() const noexcept override { return wire::Form::kTopK; }
  std::size_t block() const noexcept override { return kTopKBlock; }
  std::size_t message_size(std::size_t capacity) const noexcept override {
    return wire::top_k_size(capacity, k_);
  }

  void combine(std::span<const std::byte* const> messages, const Part& part, float factor,
               const float* e, const float* live, float* q, Block& block,
               std::byte* workspace) const noexcept override {
    kernels::sum_top_k(read(messages, part, workspace), static_cast<int>(messages.size()),
                       slots(part), factor, e, live, part.begin % kTopKBlock, part.count, q,
                       block.lanes);
  }

  void encode(const float* p, const float* live, const Part& part, Block& block, float gain,
              float* e, std::byte* message) const noexcept override {
    wire::store_float(scale_at(message, part), block.scale);
    kernels::to_top_k(p, live, part.count, slots(part), kernels::largest_of(block.lanes), gain, e,
                      reinterpret_cast<std::uint8_t*>(places_at(message, part)));
  }

  void clear(const Part& part, std::byte* message) const noexcept override {
    const std::size_t first = wire::blocks(part.begin, kTopKBlock);
    const std::size_t last = wire::blocks(part.begin + part.count, kTopKBlock);
    const std::size_t all = wire::top_k_slots(part.capacity, k_);
    const std::size_t from = std::min(first * k_, all), to = std::min(last * k_, all);
    std::byte* places = message + wire::kHeaderSize;
    std::memset(places + kernels::top_k_bytes(from), 0, kernels::top_k_bytes(to - from));
    std::memset(places + kernels::top_k_bytes(all) + 4 * first, 0, 4 * (last - first));
  }

  const float* decode(const std::byte* message, const Part& part,
                      float* out) const noexcept override {
    kernels::from_top_k(at(message, part), slots(part), part.begin % kTopKBlock, part.count, out);
    return out;
  }

  void check(const std::byte* message, std::size_t capacity, std::size_t count,
             int from) const override {
    wire::check_scales(scale_at(message, {capacity, 0, 0}), wire::blocks(count, kTopKBlock), from,
                       largest_scale());
    for (std::size_t begin = 0; begin < count; begin += kTopKBlock)
      check_places(message, {capacity, begin, std::min(kTopKBlock, count - begin)}, from);
  }

  Integers at(const std::byte* message, const Part& part) const noexcept {
    return {wire::load_float(scale_at(message, part)),
            reinterpret_cast<const std::uint8_t*>(places_at(message, part))};
  }

 private:
  // Of the part's block.
  std::size_t slots(const Part& part) const noexcept {
    return std::min(k_, part.capacity - part.begin / kTopKBlock * kTopKBlock);
  }
  template <typename Byte>
  Byte* places_at(Byte* message, const Part& part) const noexcept {
    return message + wire::kHeaderSize + kernels::top_k_bytes(part.begin / kTopKBlock * k_);
  }
  template <typename Byte>
  Byte* scale_at(Byte* message, const Part& part) const noexcept {
    return message + wire::kHeaderSize +
           kernels::top_k_bytes(wire::top_k_slots(part.capacity, k_)) +
           4 * (part.begin / kTopKBlock);
  }

  // Indices ascend and lie in the block; after the first free place all are free and 0.
  void check_places(const std::byte* message, const Part& part, int from) const {
    const Integers in = at(message, part);
    const std::size_t slots = this->slots(part), block = part.begin / kTopKBlock;
    std::size_t place = 0, least = 0;
    for (; place < slots && !kernels::is_free(in.codes, place); ++place) {
      const std::size_t index = kernels::index_at(in.codes, place);
      if (index < least || index >= part.count)
        fail(Code::kCorrupt,
             "message from rank {}: index {} of block {} is {}, expected one from {} to {}", from,
             place, block, index, least, part.count - 1);
      least = index + 1;
    }
    for (; place < slots; ++place) {
      const std::size_t index = kernels::index_at(in.codes, place);
      const int code = kernels::code_at(in.codes, slots, place);
      if (index != 0 || code != 0)
        fail(Code::kCorrupt,
             "message from rank {}: place {} of block {} has index {} and code {}, expected 0 "
             "after the last element",
             from, place, block, index, code);
    }
  }

  std::size_t k_;
};

}  // namespace

std::unique_ptr<Codec> make_top_k_codec(const CodecOptions& options) {
  return std::make_unique<TopK>(options);
}

}  // namespace laconic::inline codec
