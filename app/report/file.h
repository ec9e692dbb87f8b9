#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

// Files of results. Failures are Error(kFile) with the path and the system's reason.
namespace laconic::app::report {

std::string read_text(const std::filesystem::path& path);

// After an error what was at `path` is still there.
void replace_text(const std::filesystem::path& path, std::string_view text);

// A file that grows at its end. What was appended is with the system when append returns, so a
// killed process loses none of it.
class AppendedFile {
 public:
  explicit AppendedFile(std::filesystem::path path);
  void append(std::string_view bytes);
  // Some systems report a full disk here only. Nothing can be appended afterwards.
  void close();
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace laconic::app::report
