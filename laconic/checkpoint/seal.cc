#include "laconic/checkpoint/seal.h"

#include <span>

#include "laconic/core/error.h"
#include "laconic/core/hash.h"

namespace laconic::inline checkpoint {
namespace {

constexpr std::string_view kMember = "\"seal\":\"";
constexpr std::size_t kDigits = 16;

std::string seal_of(std::string_view body) {
  return hex(hash64(std::as_bytes(std::span(body.data(), body.size()))));
}

}  // namespace

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::uint64_t parse_hex(const std::string& digits) { return std::stoull(digits, nullptr, 16); }

std::string sealed(std::string body, std::string_view close) {
  const std::string seal = seal_of(body);
  return body.append(kMember).append(seal).append("\"").append(close);
}

std::size_t seal_length(std::string_view close) noexcept {
  return kMember.size() + kDigits + 1 + close.size();
}

std::string checked_seal(std::string_view text, std::string_view close,
                         const std::filesystem::path& path) {
  if (text.size() < seal_length(close))
    fail(Code::kCorrupt, "{}: {} bytes of text are too short to hold a seal", path.string(),
         text.size());
  const std::string_view body = text.substr(0, text.size() - seal_length(close));
  const std::string wanted = sealed(std::string(body), close);
  if (text != wanted)
    fail(Code::kCorrupt,
         "{}: the text ends with `{}`, its hash asks for `{}`: damaged, or not written by laconic",
         path.string(), text.substr(body.size()), wanted.substr(body.size()));
  return seal_of(body);
}

}  // namespace laconic::inline checkpoint
