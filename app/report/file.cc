#include "app/report/file.h"

#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "laconic/checkpoint/file.h"

namespace laconic::app::report {
namespace {

[[noreturn]] void fail_with_errno(const char* what, const std::filesystem::path& path) {
  const std::error_code error(errno, std::generic_category());
  fail(Code::kFile, "cannot {} {}: {}", what, path.string(), error.message());
}

}  // namespace

std::string read_text(const std::filesystem::path& path) {
  const InputFile file(path);
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void replace_text(const std::filesystem::path& path, std::string_view text) {
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(text))};
  write_file(path, pieces);
}

AppendedFile::AppendedFile(std::filesystem::path path)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), "abe")) {
  if (!file_) fail_with_errno("open", path_);
}

void AppendedFile::append(std::string_view bytes) {
  if (!file_) fail(Code::kFile, "{} is closed: nothing can be appended", path_.string());
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size() ||
      std::fflush(file_.get()) != 0)
    fail_with_errno("write", path_);
}

void AppendedFile::close() {
  if (file_ && std::fclose(file_.release()) != 0) fail_with_errno("close", path_);
}

}  // namespace laconic::app::report
