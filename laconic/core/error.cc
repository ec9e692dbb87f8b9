#include "laconic/core/error.h"

namespace laconic::inline core {

const char* name(Code code) noexcept {
  switch (code) {
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kTransport: return "transport";
    case Code::kTimeout: return "timeout";
    case Code::kCorrupt: return "corrupt data";
    case Code::kUnavailable: return "unavailable";
    case Code::kFile: return "file";
    case Code::kMismatch: return "replicas differ";
    case Code::kInternal: return "internal";
  }
  return "unknown";
}

std::optional<Code> code_named(std::string_view text) noexcept {
  for (int code = 0; code <= static_cast<int>(Code::kInternal); ++code)
    if (text == name(static_cast<Code>(code))) return static_cast<Code>(code);
  return {};
}

}  // namespace laconic::inline core
