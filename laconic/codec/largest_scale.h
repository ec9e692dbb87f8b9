#pragma once

#include <cmath>
#include <limits>

#include "laconic/codec/codec.h"
#include "laconic/kernels/integer.h"

namespace laconic::inline codec {

// What codecs of b-bit integers share whose one fp32 scale s per block comes from the block's
// largest magnitude M: s = M/L, L = 2^(b-1) - 1. Every field times s is finite, -L-1 too, which
// nobody sends: blocks of larger numbers are bad, and messages with larger scales are refused.
// `Self` has `Integers at(message, part)`.
template <typename Self>
class LargestScale : public Codec {
 public:
  bool exact() const noexcept override { return false; }

  void measure(const float* a, const float* e, const float* live, std::size_t count, float* p,
               Block& block) const noexcept override {
    kernels::measure_largest(a, e, live, count, p, block.lanes);
  }

  bool settle(std::size_t, Block& block) const noexcept override {
    const float largest = kernels::largest_of(block.lanes);
    block.scale = kernels::integer_scale(largest, bits_);
    return std::isfinite(largest) && block.scale <= largest_scale();
  }

  std::size_t workspace_size(std::size_t messages) const noexcept override {
    return sizeof(kernels::Integers) * messages;
  }

 protected:
  explicit LargestScale(int bits) : bits_(bits) {}

  int bits() const noexcept { return bits_; }
  float largest_scale() const noexcept {
    return std::numeric_limits<float>::max() / static_cast<float>(1 << (bits_ - 1));
  }
  // A part of all messages, in `workspace`.
  const kernels::Integers* read(std::span<const std::byte* const> messages, const Part& part,
                                std::byte* workspace) const noexcept {
    auto* from = reinterpret_cast<kernels::Integers*>(workspace);
    for (std::size_t r = 0; r < messages.size(); ++r)
      from[r] = static_cast<const Self*>(this)->at(messages[r], part);
    return from;
  }

 private:
  int bits_;
};

}  // namespace laconic::inline codec
