#pragma once

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace laconic::inline core {

enum class Code {
  kInvalidArgument,  // the caller's values do not fit; nothing was changed
  kTransport,        // the engine failed; the group is unusable afterwards
  kTimeout,          // a rank is missing: it died, left or did not arrive in time
  kCorrupt,          // bytes that do not fit their format
  kUnavailable,      // this build or machine lacks a part; the message names the remedy
  kFile,             // a file cannot be read or written
  kMismatch,         // replicas that must be equal are not
  kInternal,         // an exception of the caller's own code or of another library
};

const char* name(Code code) noexcept;
// The code of this name, if there is one.
std::optional<Code> code_named(std::string_view name) noexcept;

// The only exception type of the library. what() gives both values and what to do.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Code code() const noexcept { return code_; }

 private:
  Code code_;
};

// Throws Error(code) with a formatted message.
template <typename... Args>
[[noreturn]] void fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace laconic::inline core
