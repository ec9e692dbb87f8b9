#include "app/data/files.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <span>
#include <system_error>

#include "laconic/checkpoint/file.h"

namespace laconic::app::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_at(const char* what, const fs::path& path, const std::error_code& error) {
  fail(Code::kFile, "cannot {} {}: {}", what, path.string(), error.message());
}

std::error_code last_error() { return {errno, std::generic_category()}; }

}  // namespace

std::string read_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) fail_at("read", path, error);
  if (!fs::is_regular_file(status)) fail(Code::kFile, "{} is not a file", path.string());
  const auto size = fs::file_size(path, error);
  if (error) fail_at("read", path, error);
  std::ifstream file(path, std::ios::binary);
  if (!file) fail_at("open", path, last_error());
  std::string bytes(size, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  if (file.gcount() != static_cast<std::streamsize>(size))
    fail(Code::kFile, "{} has {} bytes, only {} could be read", path.string(), size, file.gcount());
  return bytes;
}

std::vector<fs::path> files_in(const fs::path& directory) {
  std::error_code error;
  std::vector<fs::path> files;
  fs::directory_iterator entries(directory, error);
  if (error) fail_at("list", directory, error);
  for (const auto& entry : entries)
    if (entry.is_regular_file(error) && !entry.path().filename().string().starts_with('.'))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

void write_file(const fs::path& path, std::string_view bytes) {
  static std::atomic<int> number;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) fail_at("make the directory of", path, error);
  const fs::path own = fmt::format("{}.{}-{}", path.string(), ::getpid(), number++);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(bytes))};
  try {
    laconic::write_file(own, pieces);
    rename_path(own, path);
  } catch (...) {
    fs::remove(own, error);
    throw;
  }
}

}  // namespace laconic::app::data
