#include "laconic/checkpoint/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace laconic::inline checkpoint {
namespace {

namespace fs = std::filesystem;

// What one call moves at most; Linux stops at 2 GiB.
constexpr std::size_t kLargestCall = std::size_t{1} << 30;

[[noreturn]] void fail_with_errno(const char* what, const fs::path& path) {
  const std::error_code error(errno, std::generic_category());
  fail(Code::kFile, "cannot {} {}: {}", what, path.string(), error.message());
}

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, const char* what)
      : number_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (number_ < 0) fail_with_errno(what, path);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int get() const noexcept { return number_; }
  int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_;
};

void write_all(int descriptor, std::span<const std::byte> bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), std::min(bytes.size(), kLargestCall));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno("write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void write_and_sync(const fs::path& path, std::span<const std::span<const std::byte>> pieces) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC, "create");
  for (const auto& piece : pieces) write_all(file.get(), piece, path);
  if (::fsync(file.get()) != 0) fail_with_errno("make safe (fsync)", path);
  // Some network filesystems report a full disk here only.
  if (::close(file.release()) != 0) fail_with_errno("close", path);
}

}  // namespace

InputFile::InputFile(const fs::path& path) : path_(path), descriptor_(-1) {
  Descriptor file(path, O_RDONLY | O_NONBLOCK, "open");  // a pipe without a writer must not hang
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_with_errno("examine", path);
  if (!S_ISREG(status.st_mode)) fail(Code::kFile, "{} is not a regular file", path.string());
  size_ = static_cast<std::uint64_t>(status.st_size);
  descriptor_ = file.release();
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), std::min(out.size(), kLargestCall),
                                static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with_errno("read", path_);
    if (got == 0)
      fail(Code::kCorrupt, "{} ends at byte {}, {} more are expected", path_.string(), offset,
           out.size());
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

void check_nesting(std::string_view json, const fs::path& path) {
  constexpr int kDeepest = 64;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{')) {
      if (++depth > kDeepest)
        fail(Code::kCorrupt, "{} nests lists and objects deeper than {} at byte {}", path.string(),
             kDeepest, i);
    } else if (!quoted && (c == ']' || c == '}')) {
      --depth;
    }
  }
}

void write_file(const fs::path& path, std::span<const std::span<const std::byte>> pieces) {
  fs::path temporary = path;
  temporary += ".laconic-tmp";
  try {
    write_and_sync(temporary, pieces);
    rename_path(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(path.has_parent_path() ? path.parent_path() : ".");
}

void make_directories(const fs::path& directory) {
  if (directory.empty() || fs::is_directory(directory)) return;
  const fs::path parent = directory.parent_path();
  make_directories(parent);
  std::error_code error;
  fs::create_directory(directory, error);
  if (error)
    fail(Code::kFile, "cannot make the folder {}: {}", directory.string(), error.message());
  sync_directory(parent.empty() ? "." : parent);
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_with_errno("replace", to);
}

void sync_directory(const fs::path& directory) {
  const Descriptor opened(directory, O_RDONLY | O_DIRECTORY, "open the folder");
  // Some filesystems know no fsync of folders and need none.
  if (::fsync(opened.get()) != 0 && errno != EINVAL)
    fail_with_errno("make safe (fsync) the folder", directory);
}

}  // namespace laconic::inline checkpoint
