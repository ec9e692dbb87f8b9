#include "app/report/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <system_error>

#include "laconic/core/error.h"

namespace laconic::app::report {
namespace {

namespace fs = std::filesystem;

// The few fields of tensorflow/core/util/event.proto and framework/summary.proto that are written.
enum Field : std::uint32_t {
  kEventWallTime = 1,
  kEventStep = 2,
  kEventFileVersion = 3,
  kEventSummary = 5,
  kSummaryValue = 1,
  kValueTag = 1,
  kValueSimpleValue = 2,
};
enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? 0x82F63B78U : 0);
    table[i] = c;
  }
  return table;
}
constexpr auto kCrcTable = crc_table();

template <typename T>
void put_little_endian(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    out += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>((value & 127) | 128);
  out += static_cast<char>(value);
}

void put_key(std::string& out, Field field, WireType type) { put_varint(out, field << 3 | type); }

void put_bytes(std::string& out, Field field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string start_event() {
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::string event;
  put_key(event, kEventWallTime, kFixed64);
  put_little_endian(event, std::bit_cast<std::uint64_t>(now));
  return event;
}

// TFRecord's way to keep a checksum of data that holds checksums from being of little use.
std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return std::rotr(crc, 15) + 0xA282EAD8U;
}

fs::path new_path(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(Code::kFile, "cannot make {}: {}", folder.string(), error.message());
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  for (int n = 0;; ++n) {
    fs::path path =
        folder / fmt::format("events.out.tfevents.{:010}.{}.{}.{}", seconds, host, ::getpid(), n);
    if (!fs::exists(path)) return path;
  }
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept {
  std::uint32_t crc = ~0U;
  for (const char c : bytes)
    crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 255];
  return ~crc;
}

EventFile::EventFile(const fs::path& folder) : file_(new_path(folder)) {
  std::string event = start_event();
  put_bytes(event, kEventFileVersion, "brain.Event:2");
  write_record(event);
}

void EventFile::append(std::int64_t step, std::initializer_list<Scalar> scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    put_bytes(value, kValueTag, tag);
    put_key(value, kValueSimpleValue, kFixed32);
    put_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(number)));
    put_bytes(summary, kSummaryValue, value);
  }
  std::string event = start_event();
  put_key(event, kEventStep, kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
  put_bytes(event, kEventSummary, summary);
  write_record(event);
}

void EventFile::write_record(const std::string& event) {
  std::string record;
  put_little_endian(record, static_cast<std::uint64_t>(event.size()));
  put_little_endian(record, masked_crc(record));
  record += event;
  put_little_endian(record, masked_crc(event));
  file_.append(record);
}

}  // namespace laconic::app::report
