#include "laconic/wire/chunk.h"

#include <bit>
#include <cstring>

#include "laconic/core/error.h"
#include "laconic/core/hash.h"

namespace laconic::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

constexpr std::uint16_t kMagic = 0x434C;  // "LC"
constexpr std::uint8_t kVersion = 1;

struct Raw {
  std::uint16_t magic;
  std::uint8_t version, form;
  std::uint32_t elements, sequence, checksum;
};
static_assert(sizeof(Raw) == kHeaderSize);

std::uint32_t checksum(std::span<const std::byte> message) {
  return static_cast<std::uint32_t>(hash64(message.subspan(kHeaderSize)));
}

}  // namespace

void seal(std::span<std::byte> message, const Header& header) {
  const Raw raw{kMagic,          kVersion,        static_cast<std::uint8_t>(header.form),
                header.elements, header.sequence, checksum(message)};
  std::memcpy(message.data(), &raw, sizeof raw);
}

void check(std::span<const std::byte> message, std::size_t size, const Header& expected, int rank) {
  const auto differs = [rank](const char* what, auto has, auto wanted) {
    if (has != wanted)
      fail(Code::kCorrupt, "message from rank {}: {} is {}, expected {}", rank, what, has, wanted);
  };
  differs("its size", message.size(), size);
  if (size < kHeaderSize)
    fail(Code::kCorrupt, "message from rank {}: {} bytes, a header alone has {}", rank, size,
         kHeaderSize);
  Raw raw;
  std::memcpy(&raw, message.data(), sizeof raw);
  differs("the magic number", raw.magic, kMagic);
  differs("the format version", raw.version, kVersion);
  differs("the form", raw.form, static_cast<std::uint8_t>(expected.form));
  differs("the number of elements", raw.elements, expected.elements);
  differs("the exchange number", raw.sequence, expected.sequence);
  differs("the checksum", raw.checksum, checksum(message));
}

void check_scales(const std::byte* scales, std::size_t number, int rank, float largest) {
  for (std::size_t k = 0; k < number; ++k) {
    const float scale = load_float(scales + 4 * k);
    if (!(scale >= 0 && scale <= largest))
      fail(Code::kCorrupt, "message from rank {}: scale {} is {}, expected a number from 0 to {}",
           rank, k, scale, largest);
  }
}

void check_voters(const std::byte* voters, std::size_t words, int most, int rank) {
  for (std::size_t k = 0; k < words; ++k) {
    std::uint16_t number;
    std::memcpy(&number, voters + 2 * k, sizeof number);
    if (number > most)
      fail(Code::kCorrupt, "message from rank {}: word {} has {} voters, expected at most {}", rank,
           k, number, most);
  }
}

float load_float(const std::byte* at) noexcept {
  float value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void store_float(std::byte* at, float value) noexcept { std::memcpy(at, &value, sizeof value); }

}  // namespace laconic::wire
