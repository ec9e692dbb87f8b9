#include <cstring>

#include "laconic/codec/largest_scale.h"
#include "laconic/core/error.h"

namespace laconic::inline codec {
namespace {

using kernels::Integers;

// Integers of b bits and one scale s per block: C(p) = code*s, code = p/s rounded to the nearest,
// ties to even.
class Integer final : public LargestScale<Integer> {
 public:
  Integer(std::string_view name, int bits, wire::Form form, const CodecOptions& options)
      : LargestScale(bits), name_(name), form_(form), block_(options.quant_block) {}

  std::string_view name() const noexcept override { return name_; }
  std::string describe() const override {
    return fmt::format("{} mean, scales of {} elements", name_, block_);
  }
  std::optional<wire::Form> form() const noexcept override { return form_; }
  std::size_t block() const noexcept override { return block_; }
  std::size_t message_size(std::size_t capacity) const noexcept override {
    return wire::integers_size(capacity, block_, bits());
  }

  void combine(std::span<const std::byte* const> messages, const Part& part, float factor,
               const float* e, const float* live, float* q, Block& block,
               std::byte* workspace) const noexcept override {
    kernels::sum_integers(read(messages, part, workspace), static_cast<int>(messages.size()),
                          bits(), factor, e, live, part.count, q, block.lanes);
  }

  void encode(const float* p, const float* live, const Part& part, Block& block, float gain,
              float* e, std::byte* message) const noexcept override {
    const auto to = parts(message, part.capacity);
    wire::store_float(to.extras + 4 * (part.begin / block_), block.scale);
    kernels::to_integers(p, live, part.count, bits(), block.scale, gain, e,
                         reinterpret_cast<std::uint8_t*>(to.bits + bytes(part.begin)));
  }

  bool encodes_runs() const noexcept override { return true; }
  std::size_t encode_run(const kernels::Terms& a, const float* e, const float* live,
                         const Part& part, float gain, float* left,
                         std::byte* message) const noexcept override {
    const auto to = parts(message, part.capacity);
    float scales[kTile / wire::kWord];
    const std::size_t done = kernels::encode_integers(
        a, e, live, part.count, block_, bits(), largest_scale(), gain, left, scales,
        reinterpret_cast<std::uint8_t*>(to.bits + bytes(part.begin)));
    for (std::size_t b = 0; b < wire::blocks(done, block_); ++b)
      wire::store_float(to.extras + 4 * (part.begin / block_ + b), scales[b]);
    return done;
  }

  void clear(const Part& part, std::byte* message) const noexcept override {
    const auto to = parts(message, part.capacity);
    const std::size_t end = part.begin + part.count;
    const std::size_t word = wire::words(part.begin), scale = wire::blocks(part.begin, block_);
    const std::size_t words = wire::words(end) - word;
    std::memset(to.bits + bytes(word * wire::kWord), 0, bytes(words * wire::kWord));
    std::memset(to.extras + 4 * scale, 0, 4 * (wire::blocks(end, block_) - scale));
  }

  const float* decode(const std::byte* message, const Part& part,
                      float* out) const noexcept override {
    for_each_block(part, block_, [&](const Part& one) {
      kernels::from_integers(at(message, one), bits(), one.count, out + (one.begin - part.begin));
    });
    return out;
  }

  void check(const std::byte* message, std::size_t capacity, std::size_t count,
             int from) const override {
    wire::check_scales(parts(message, capacity).extras, wire::blocks(count, block_), from,
                       largest_scale());
  }

  Integers at(const std::byte* message, const Part& part) const noexcept {
    const auto in = parts(message, part.capacity);
    return {wire::load_float(in.extras + 4 * (part.begin / block_)),
            reinterpret_cast<const std::uint8_t*>(in.bits + bytes(part.begin))};
  }

 private:
  template <typename Byte>
  wire::Parts<Byte> parts(Byte* message, std::size_t capacity) const noexcept {
    return wire::parts(std::span(message, message_size(capacity)), capacity, bits());
  }
  std::size_t bytes(std::size_t elements) const noexcept {
    return elements * static_cast<std::size_t>(bits()) / 8;
  }

  std::string_view name_;
  wire::Form form_;
  std::size_t block_;
};

}  // namespace

std::unique_ptr<Codec> make_int8_codec(const CodecOptions& options) {
  return std::make_unique<Integer>("int8", 8, wire::Form::kInt8, options);
}
std::unique_ptr<Codec> make_int4_codec(const CodecOptions& options) {
  return std::make_unique<Integer>("int4", 4, wire::Form::kInt4, options);
}
std::unique_ptr<Codec> make_int2_codec(const CodecOptions& options) {
  return std::make_unique<Integer>("int2", 2, wire::Form::kInt2, options);
}

}  // namespace laconic::inline codec
