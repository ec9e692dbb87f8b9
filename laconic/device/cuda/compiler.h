#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace laconic::cuda {

// Makes machine code of a kernel file (kernels.h) for a GPU of compute capability `architecture`
// (80 for 8.0).
class Compiler {
 public:
  virtual ~Compiler() = default;
  // Part of the cache's key: "NVRTC 13.0".
  virtual std::string version() const = 0;
  // Throws Error(kUnavailable) with the compiler's log.
  virtual std::string compile(std::string_view name, std::string_view text,
                              int architecture) const = 0;
};

// Opens libnvrtc: `library`, else $LACONIC_NVRTC, else the system's. Throws Error(kUnavailable) with
// what to install.
std::unique_ptr<Compiler> open_nvrtc(const char* library = nullptr);
// For the stand-in driver, which looks at no code.
std::unique_ptr<Compiler> emulated_compiler();

// Machine code on disk. What cannot be read, is damaged or was made of something else is made again;
// a folder that cannot be written costs time, no more.
class CodeCache {
 public:
  // `folder` empty: $LACONIC_CACHE, else laconic in the user's cache folder.
  explicit CodeCache(std::filesystem::path folder = {});

  const std::filesystem::path& folder() const noexcept { return folder_; }
  std::string code_of(const Compiler& compiler, std::string_view name, std::string_view text,
                      int architecture) const;
  // Any text under a key of its own; empty: there is none.
  std::string read(std::string_view key) const;
  void write(std::string_view key, std::string_view value) const;

 private:
  std::filesystem::path place_of(std::string_view key) const;
  std::filesystem::path folder_;
};

// What the kernels' texts and the compiler's flags are, as one number.
std::string texts_hash();

}  // namespace laconic::cuda
