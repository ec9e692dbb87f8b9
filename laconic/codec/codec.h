#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "laconic/kernels/sign.h"
#include "laconic/wire/chunk.h"

namespace laconic::inline codec {

// Numbers to bytes and back, block by block: one file per codec. A codec is arithmetic on spans. It
// knows neither ranks nor where residuals are kept nor what becomes of a block that cannot be
// encoded: that is the mean's part, the same for every codec. Objects are immutable, so all threads
// use one at once. C(p) is what a receiver decodes of p.
//
// To encode a block: `measure` or `combine` its tiles in order, `settle`, then `encode` its tiles.
// A block of at most a tile stays in L1 between them; of a longer one p is made twice.
class Codec {
 public:
  static constexpr std::size_t kTile = 4096;  // elements

  // Elements [begin, begin + count) of a message made for `capacity` elements, in one block, at
  // most a tile.
  struct Part {
    std::size_t capacity = 0, begin = 0, count = 0;
  };

  // What is known of a block, tile by tile.
  struct Block {
    kernels::Lanes lanes;     // sums or maxima of the elements so far
    double total = 0;         // of finished tiles, where a block may have any length
    std::size_t counted = 0;  // live elements
    float scale = 0;          // set by settle
  };

  virtual ~Codec() = default;
  virtual std::string_view name() const noexcept = 0;
  // "one-bit mean, L2 scales of 4096 elements".
  virtual std::string describe() const = 0;
  // The codec for the mean of what was encoded with this one, where no other is asked for.
  virtual std::string_view way_back() const noexcept { return name(); }

  // Whether whole numbers travel and are added in rank order. Then nothing is left over and nothing
  // is measured: e and live are null, every block can be encoded.
  virtual bool exact() const noexcept = 0;
  // Of its scales, where they come from a norm.
  virtual kernels::Norm norm() const noexcept { return kernels::Norm::kL2; }
  // What the header of a message names; none: messages are bare numbers without a header.
  virtual std::optional<wire::Form> form() const noexcept = 0;
  // Elements per block, a multiple of 64, from the beginning of a chunk on. 0: any number, one
  // block per message.
  virtual std::size_t block() const noexcept = 0;
  // Bytes, the header included.
  virtual std::size_t message_size(std::size_t capacity) const noexcept = 0;
  // Of long messages.
  double bits_per_element() const noexcept;

  // Where the values of a part may be written so that `encode` has nothing left to do; null: `p`
  // and `q` below are scratch memory.
  virtual float* in_place(std::byte*, const Part&) const noexcept { return nullptr; }
  // p = a + e (e null: a), 0 where live is 0 (live null: nowhere). `p` may be `a`.
  virtual void measure(const float* a, const float* e, const float* live, std::size_t count,
                       float* p, Block& block) const noexcept = 0;
  // q = (sum over messages, in order) * factor + e, measured as by `measure`. `workspace` has
  // workspace_size bytes, aligned for any type.
  virtual void combine(std::span<const std::byte* const> messages, const Part& part, float factor,
                       const float* e, const float* live, float* q, Block& block,
                       std::byte* workspace) const noexcept = 0;
  virtual std::size_t workspace_size(std::size_t messages) const noexcept = 0;
  // After the last tile of a block of `count` elements. False: it holds something not finite.
  virtual bool settle(std::size_t count, Block& block) const noexcept = 0;
  // Exact codecs: `combine` and `encode` where one message is null. `values` stand for what it would
  // decode to, and become what receivers decode of the mean. REQUIRES: combines_own.
  virtual bool combines_own() const noexcept { return false; }
  virtual void combine_own(std::span<const std::byte* const> /*messages*/, const Part& /*part*/,
                           float /*factor*/, float* /*values*/, std::byte* /*message*/,
                           std::byte* /*workspace*/) const noexcept {}
  // Writes the codes and whatever the block shares; e = (p - C(p)) * gain, 0 where live is 0. `e`
  // may be `p`.
  virtual void encode(const float* p, const float* live, const Part& part, Block& block, float gain,
                      float* e, std::byte* message) const noexcept = 0;
  // Whether encode_run does something.
  virtual bool encodes_runs() const noexcept { return false; }
  // A part of several whole blocks, at most a tile in all, at once, as measure, settle and encode of
  // each would do: p = a + e, and (p - C(p)) * gain goes to `left`, which may be a term or `e`.
  // Where `a` has two terms, `live` is null. Returns the number of elements before the first block
  // that cannot be encoded.
  virtual std::size_t encode_run(const kernels::Terms& /*a*/, const float* /*e*/,
                                 const float* /*live*/, const Part& /*part*/, float /*gain*/,
                                 float* /*left*/, std::byte* /*message*/) const noexcept {
    return 0;
  }
  // The part, whole blocks or what no block uses, decodes to 0. It may be longer than a tile.
  virtual void clear(const Part& part, std::byte* message) const noexcept = 0;
  // Returns the values: in `out` or in the message itself. The part may have several whole blocks.
  virtual const float* decode(const std::byte* message, const Part& part,
                              float* out) const noexcept = 0;
  // Throws Error(kCorrupt), naming rank `from`, where a receiver could not decode finite numbers
  // from a message whose header was checked before: check(message, capacity, count, from).
  virtual void check(const std::byte*, std::size_t, std::size_t, int) const {}
};

// Calls work(one) for the blocks of a part, of `block` elements, not 0; for the part itself where they
// are longer.
template <typename Work>
void for_each_block(const Codec::Part& part, std::size_t block, const Work& work) {
  if (block >= part.count) return work(part);
  for (std::size_t at = 0; at < part.count; at += block)
    work(Codec::Part{part.capacity, part.begin + at,
                     part.count - at < block ? part.count - at : block});
}

struct CodecOptions {
  std::size_t scale_block = 4096;                 // sign: a multiple of 64, or 0 for any length
  kernels::Norm scale_norm = kernels::Norm::kL2;  // sign
  std::size_t quant_block = 256;                  // int8, int4, int2: a multiple of 64
  std::size_t top_k = 128;                        // top-k: elements of a block, 1 to 4096
};

// What make_codec knows, in the order of messages.
std::span<const std::string_view> codec_names() noexcept;

// Throws Error(kInvalidArgument) that lists codec_names() for any other name.
std::unique_ptr<Codec> make_codec(std::string_view name, const CodecOptions& options = {});

std::unique_ptr<Codec> make_sign_codec(const CodecOptions& options);
std::unique_ptr<Codec> make_fp32_codec();
std::unique_ptr<Codec> make_bf16_codec();
std::unique_ptr<Codec> make_int8_codec(const CodecOptions& options);
std::unique_ptr<Codec> make_int4_codec(const CodecOptions& options);
std::unique_ptr<Codec> make_int2_codec(const CodecOptions& options);
std::unique_ptr<Codec> make_top_k_codec(const CodecOptions& options);

}  // namespace laconic::inline codec
