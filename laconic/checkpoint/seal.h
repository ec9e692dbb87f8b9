#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

// JSON text in which a flipped bit is noticed: its last member is "seal", the hash64 of all
// text before that member.
namespace laconic::inline checkpoint {

// 16 hexadecimal digits.
std::string hex(std::uint64_t value);
// Of what hex gave.
std::uint64_t parse_hex(const std::string& digits);

// `body` up to where the member "seal" belongs, that member, and `close`.
std::string sealed(std::string body, std::string_view close);
// How much longer sealed text is than its body.
std::size_t seal_length(std::string_view close) noexcept;
// The seal of `text`, which ended with `close`. Error(kCorrupt) naming `path` and both hashes when
// the seal is broken or there is none.
std::string checked_seal(std::string_view text, std::string_view close,
                         const std::filesystem::path& path);

}  // namespace laconic::inline checkpoint
