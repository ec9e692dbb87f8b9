#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "laconic/core/error.h"

// Files as checkpoints and results need them: whole or not there at all. Failures are Error(kFile)
// with the path and the system's reason.
namespace laconic::inline checkpoint {

// A regular file, open for reading. Movable.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  std::uint64_t size() const noexcept { return size_; }
  // Fills `out` from `offset` on. A file that ends before is Error(kCorrupt).
  void read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

// JSON text that is nested deeper than any of ours is Error(kCorrupt): to copy or print it would
// take a stack as deep.
void check_nesting(std::string_view json, const std::filesystem::path& path);

// Writes the pieces one after the other under a temporary name, makes that safe, and renames it to
// `path`. After an error `path` is as it was and the temporary file is gone.
void write_file(const std::filesystem::path& path,
                std::span<const std::span<const std::byte>> pieces);

// Makes the folder and those above it that are missing, and makes their names safe.
void make_directories(const std::filesystem::path& directory);

// Replaces `to`. Safe only after sync_directory of the folder that both are in.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
void sync_directory(const std::filesystem::path& directory);

}  // namespace laconic::inline checkpoint
