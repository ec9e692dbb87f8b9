#include "laconic/core/error.h"

namespace laconic {

const char* name(Code code) noexcept {
  switch (code) {
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kTransport: return "transport";
    case Code::kTimeout: return "timeout";
    case Code::kCorrupt: return "corrupt data";
    case Code::kUnavailable: return "unavailable";
    case Code::kFile: return "file";
  }
  return "unknown";
}

}  // namespace laconic
