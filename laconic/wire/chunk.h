#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

// The bytes of a coded chunk (docs/reference/wire_format.md). Little-endian, no padding between parts: a
// header, then bit words, then what the form adds. A message is as long as its capacity asks,
// however few elements it holds, so that all messages of an exchange have equal size.
namespace laconic::wire {

enum class Form : std::uint8_t {
  kSigns = 1,        // bits, one fp32 scale per block
  kRandomSigns = 2,  // bits, one activity bit per word; votes too
  kCounts = 3,       // bit planes of a count, the 16-bit number of voters of each word
  kInt8 = 4,         // 8-bit integers, one fp32 scale per block
  kInt4 = 5,         // the same of 4 bits
  kInt2 = 6,         // the same of 2 bits
};

inline constexpr std::size_t kHeaderSize = 16;
inline constexpr std::size_t kWord = 64;  // elements

constexpr std::size_t words(std::size_t elements) { return (elements + kWord - 1) / kWord; }
// Scale blocks of `block` elements; block 0 is one for all.
constexpr std::size_t blocks(std::size_t elements, std::size_t block) {
  return elements == 0 ? 0 : block == 0 ? 1 : (elements + block - 1) / block;
}
constexpr std::size_t signs_size(std::size_t elements, std::size_t block) {
  return kHeaderSize + 8 * words(elements) + 4 * blocks(elements, block);
}
// Integers of `bits` bits, packed, then one scale per block.
constexpr std::size_t integers_size(std::size_t elements, std::size_t block, int bits) {
  return kHeaderSize + 8 * static_cast<std::size_t>(bits) * words(elements) +
         4 * blocks(elements, block);
}
// One activity bit per word, in whole bytes.
constexpr std::size_t activity_size(std::size_t elements) { return (words(elements) + 7) / 8; }
constexpr std::size_t random_signs_size(std::size_t elements) {
  return kHeaderSize + 8 * words(elements) + activity_size(elements);
}
// Inside a node, without a header: bf16 ratios, then activity in whole cache lines.
constexpr std::size_t ratios_size(std::size_t elements) {
  return 2 * elements + (activity_size(elements) + 63) / 64 * 64;
}
// The same of votes: bits, then activity.
constexpr std::size_t votes_size(std::size_t elements) {
  return 8 * words(elements) + activity_size(elements);
}
constexpr std::size_t counts_size(std::size_t elements, int planes) {
  return kHeaderSize + (8 * static_cast<std::size_t>(planes) + 2) * words(elements);
}

// What sender and receiver must agree on.
struct Header {
  Form form;
  std::uint32_t elements;  // real ones, at most the capacity
  std::uint32_t sequence;  // of the exchange that the message belongs to
};

// The parts of a message of `capacity` elements. Where they lie follows from the capacity alone.
template <typename Byte>
struct Parts {
  Byte* bits;    // 8 bytes per word and plane; integers have as many planes as bits
  Byte* extras;  // scales, activity or voters; aligned to 2 bytes at most
};
template <typename Byte>
Parts<Byte> parts(std::span<Byte> message, std::size_t capacity, int planes = 1) {
  Byte* bits = message.data() + kHeaderSize;
  return {bits, bits + 8 * static_cast<std::size_t>(planes) * words(capacity)};
}

// Writes the header with a checksum of everything after it. REQUIRES: the payload is complete.
void seal(std::span<std::byte> message, const Header& header);

// Throws Error(kCorrupt), naming `rank` and both values, unless `message` is of `size` bytes,
// sealed and as expected.
void check(std::span<const std::byte> message, std::size_t size, const Header& expected, int rank);

// Throws Error(kCorrupt), naming `rank`, unless every scale is a number from 0 to `largest`.
void check_scales(const std::byte* scales, std::size_t number, int rank,
                  float largest = std::numeric_limits<float>::max());

// Throws Error(kCorrupt), naming `rank`, unless every word has at most `most` voters.
void check_voters(const std::byte* voters, std::size_t words, int most, int rank);

// Memory access without alignment.
float load_float(const std::byte* at) noexcept;
void store_float(std::byte* at, float value) noexcept;

}  // namespace laconic::wire
