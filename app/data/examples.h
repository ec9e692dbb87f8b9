#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "laconic/core/random.h"

// What all datasets share: randomness keyed by position, the check of numbers, numbers for people.
namespace laconic::app::data {

enum class Purpose : std::uint32_t {
  kOrder,
  kAugmentation,
  kWindow,
  kMask,
  kValidationMask,
  kPrototype,
  kGenerated
};

// 128 random bits for piece `index` of this example in this draw. Examples are below 2^32.
inline PhiloxCounter random_bits(Purpose purpose, std::uint32_t seed, std::uint64_t draw,
                                 std::int64_t example, std::uint32_t index) noexcept {
  const auto stream =
      static_cast<std::uint32_t>(Stream::kData) | (static_cast<std::uint32_t>(purpose) << 8);
  return philox(
      {stream, index, static_cast<std::uint32_t>(example), static_cast<std::uint32_t>(draw >> 32)},
      {seed, static_cast<std::uint32_t>(draw)});
}

// A number in [0, count) from 32 random bits.
constexpr std::uint32_t below(std::uint32_t count, std::uint32_t bits) noexcept {
  return static_cast<std::uint32_t>((std::uint64_t{bits} * count) >> 32);
}

// Throws Error(kInvalidArgument) for a number outside [0, size).
void check_examples(std::span<const std::int64_t> examples, std::int64_t size);

std::string with_commas(std::int64_t number);  // 60000: "60,000"

}  // namespace laconic::app::data
