#pragma once

#include <cstddef>
#include <cstdint>

namespace laconic::kernels {

// The yardstick of the benchmarks: the least work that moves given memory. For each element it
// reads every `reads` array, reads and writes every `updates` array, writes every `writes` array,
// and moves one bit, or bits_per_element of them, where asked.
struct Traffic {
  const float* reads[3] = {};
  float* updates[3] = {};
  float* writes[2] = {};
  const std::uint8_t* bits_in = nullptr;
  std::uint8_t* bits_out = nullptr;
  int bits_per_element = 1;  // 1, 2, 4 or 8

  double bytes_per_element() const noexcept;
};

void move(const Traffic& traffic, std::size_t count) noexcept;

}  // namespace laconic::kernels
