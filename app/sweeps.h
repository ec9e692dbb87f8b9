#pragma once

#include <cstddef>
#include <cstdint>

#include "laconic/core/buffer.h"

// What a rank does for its own parameters, before and after an exchange: one pass over memory each,
// as the optimizers do it, without anybody to talk to.
namespace laconic::app {

struct Arrays {
  explicit Arrays(std::size_t elements);
  std::size_t size() const noexcept { return g.size(); }

  Buffer<float> g, x, m, v, e;  // gradient, weights, moments, residual
  Buffer<float> scales;         // one a tile
  Buffer<std::uint8_t> bits;
};

void one_bit_code(Arrays& arrays);   // 1-bit Adam: momentum, coding
void one_bit_take(Arrays& arrays);   // decoding, weights
void zero_one_code(Arrays& arrays);  // the same with what is pending
void zero_one_take(Arrays& arrays);
void birder_code(Arrays& arrays);  // moments and draws
void birder_take(Arrays& arrays);

}  // namespace laconic::app
