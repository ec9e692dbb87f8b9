#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <span>
#include <string>

namespace laconic::testing {

// The first element whose bits differ, in words; empty when all are equal.
inline std::string first_difference(std::span<const float> has, std::span<const float> wanted) {
  if (has.size() != wanted.size())
    return fmt::format("{} elements, not {}", has.size(), wanted.size());
  for (std::size_t k = 0; k < has.size(); ++k)
    if (std::bit_cast<std::uint32_t>(has[k]) != std::bit_cast<std::uint32_t>(wanted[k]))
      return fmt::format("[{}] is {}, not {}", k, has[k], wanted[k]);
  return {};
}

}  // namespace laconic::testing
