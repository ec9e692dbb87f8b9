#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "laconic/core/error.h"

// What the fuzz targets share. A target hands hostile bytes to one reader: laconic::Error is a fine
// answer, any other exception and any finding of a sanitizer is not.
namespace laconic::fuzz {

// The bytes of one input, from the front; zeros after the end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : left_(reinterpret_cast<const char*>(data), size) {}

  std::uint8_t byte() { return static_cast<std::uint8_t>(take(1).append(1, '\0')[0]); }
  std::size_t number() {
    const std::size_t low = byte();
    return low | static_cast<std::size_t>(byte()) << 8;
  }
  std::string take(std::size_t count) {
    const std::string taken(left_.substr(0, count));
    left_.remove_prefix(taken.size());
    return taken;
  }
  std::string rest() { return take(left_.size()); }
  bool empty() const { return left_.empty(); }

 private:
  std::string_view left_;
};

// A folder of this process, removed at its end.
inline const std::filesystem::path& folder() {
  struct Folder {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("laconic-fuzz-" + std::to_string(::getpid()));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
  };
  static const Folder instance;
  return instance.path;
}

inline std::filesystem::path put(const std::string& name, std::string_view bytes) {
  const auto path = folder() / name;
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

// What must be true whatever the bytes.
inline void expect(bool holds) {
  if (!holds) std::abort();
}

// False when `read` refused what it was given.
template <typename Read>
bool accepted(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace laconic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
