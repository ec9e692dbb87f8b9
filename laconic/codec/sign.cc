#include <algorithm>
#include <cmath>
#include <cstring>

#include "laconic/codec/codec.h"
#include "laconic/core/error.h"

namespace laconic::inline codec {
namespace {

using kernels::Coded;

// One bit per element and one fp32 scale s per block: C(p) = copysign(s, p), s = the root of the
// mean square (L2) or the mean magnitude (L1) of the block's live elements. A sum over a block runs
// in 16 lanes from its first to its last element; with one scale per chunk it is folded every tile
// and the parts are added in double.
class Sign final : public Codec {
 public:
  explicit Sign(const CodecOptions& options)
      : block_(options.scale_block), norm_(options.scale_norm) {}

  std::string_view name() const noexcept override { return "sign"; }
  std::string describe() const override {
    const char* norm = norm_ == kernels::Norm::kL2 ? "L2" : "L1";
    return block_ == 0 ? fmt::format("one-bit mean, one {} scale per chunk", norm)
                       : fmt::format("one-bit mean, {} scales of {} elements", norm, block_);
  }
  bool exact() const noexcept override { return false; }
  kernels::Norm norm() const noexcept override { return norm_; }
  std::optional<wire::Form> form() const noexcept override { return wire::Form::kSigns; }
  std::size_t block() const noexcept override { return block_; }
  std::size_t message_size(std::size_t capacity) const noexcept override {
    return wire::signs_size(capacity, block_);
  }

  void measure(const float* a, const float* e, const float* live, std::size_t count, float* p,
               Block& block) const noexcept override {
    kernels::measure(a, e, live, count, norm_, p, block.lanes);
    finish_tile(live, count, block);
  }

  std::size_t workspace_size(std::size_t messages) const noexcept override {
    return sizeof(Coded) * messages;
  }
  void combine(std::span<const std::byte* const> messages, const Part& part, float factor,
               const float* e, const float* live, float* q, Block& block,
               std::byte* workspace) const noexcept override {
    auto* coded = reinterpret_cast<Coded*>(workspace);
    for (std::size_t r = 0; r < messages.size(); ++r) coded[r] = at(messages[r], part);
    kernels::serve(coded, static_cast<int>(messages.size()), factor, e, live, part.count, norm_, q,
                   block.lanes);
    finish_tile(live, part.count, block);
  }

  bool settle(std::size_t, Block& block) const noexcept override {
    const float sum = block_ == 0 ? static_cast<float>(block.total) : kernels::fold(block.lanes);
    if (!std::isfinite(sum)) return false;
    block.scale = kernels::scale_of(sum, block.counted, norm_);
    return true;
  }

  void encode(const float* p, const float* live, const Part& part, Block& block, float gain,
              float* e, std::byte* message) const noexcept override {
    const auto to = parts(message, part.capacity);
    wire::store_float(to.extras + 4 * index(part), block.scale);
    kernels::code(p, live, part.count, block.scale, gain, e,
                  reinterpret_cast<std::uint8_t*>(to.bits + part.begin / 8));
  }

  bool encodes_runs() const noexcept override { return block_ != 0; }
  std::size_t encode_run(const kernels::Terms& a, const float* e, const float* live,
                         const Part& part, float gain, float* left,
                         std::byte* message) const noexcept override {
    const auto to = parts(message, part.capacity);
    float scales[kTile / wire::kWord];
    const std::size_t done =
        kernels::encode_signs(a, e, live, part.count, block_, norm_, gain, left, scales,
                              reinterpret_cast<std::uint8_t*>(to.bits + part.begin / 8));
    for (std::size_t b = 0; b < wire::blocks(done, block_); ++b)
      wire::store_float(to.extras + 4 * (index(part) + b), scales[b]);
    return done;
  }

  void clear(const Part& part, std::byte* message) const noexcept override {
    const auto to = parts(message, part.capacity);
    const std::size_t end = part.begin + part.count;
    const std::size_t word = wire::words(part.begin), scale = wire::blocks(part.begin, block_);
    std::memset(to.bits + 8 * word, 0, 8 * (wire::words(end) - word));
    std::memset(to.extras + 4 * scale, 0, 4 * (wire::blocks(end, block_) - scale));
  }

  const float* decode(const std::byte* message, const Part& part,
                      float* out) const noexcept override {
    for_each_block(part, block_ == 0 ? part.count : block_, [&](const Part& one) {
      kernels::decode(at(message, one), one.count, out + (one.begin - part.begin));
    });
    return out;
  }

  void check(const std::byte* message, std::size_t capacity, std::size_t count,
             int from) const override {
    wire::check_scales(parts(message, capacity).extras, wire::blocks(count, block_), from);
  }

 private:
  template <typename Byte>
  wire::Parts<Byte> parts(Byte* message, std::size_t capacity) const noexcept {
    return wire::parts(std::span(message, message_size(capacity)), capacity);
  }
  std::size_t index(const Part& part) const noexcept {
    return block_ == 0 ? 0 : part.begin / block_;
  }
  Coded at(const std::byte* message, const Part& part) const noexcept {
    const auto in = parts(message, part.capacity);
    return {wire::load_float(in.extras + 4 * index(part)),
            reinterpret_cast<const std::uint8_t*>(in.bits + part.begin / 8)};
  }
  void finish_tile(const float* live, std::size_t count, Block& block) const noexcept {
    block.counted += live ? kernels::count_live(live, count) : count;
    if (block_ != 0) return;
    block.total += kernels::fold(block.lanes);
    block.lanes = {};
  }

  std::size_t block_;
  kernels::Norm norm_;
};

}  // namespace

std::unique_ptr<Codec> make_sign_codec(const CodecOptions& options) {
  return std::make_unique<Sign>(options);
}

}  // namespace laconic::inline codec
