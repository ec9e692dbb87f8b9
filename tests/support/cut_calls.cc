#include "tests/support/cut_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace laconic::testing {
namespace {

struct Plan {
  std::mutex mutex;
  bool on = false;
  Cut cut = Cut::kNone;
  std::int64_t at = 0;
  int error = 0;
  std::vector<FileCall> calls;
};

Plan& plan() {
  static Plan instance;
  return instance;
}

std::string path_of(int descriptor) {
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
  return length < 0 ? "" : std::string(path, static_cast<std::size_t>(length));
}

std::string path_in(int folder, const char* path) {
  return folder == AT_FDCWD || *path == '/' ? path : path_of(folder) + "/" + path;
}

enum class Verdict : std::uint8_t { kGo, kFail, kTear };

// Counts a call. Failure leaves errno as the plan says.
Verdict judge(const char* name, const std::string& path, const std::string& to = {}) {
  std::lock_guard lock(plan().mutex);
  if (!plan().on) return Verdict::kGo;
  plan().calls.push_back({name, path, to});
  const auto number = static_cast<std::int64_t>(plan().calls.size());
  const Cut cut = plan().cut;
  if (cut == Cut::kNone || number < plan().at) return Verdict::kGo;
  if (cut == Cut::kDie) ::_exit(kDied);
  if (cut == Cut::kDieTorn) return Verdict::kTear;
  if (cut == Cut::kFailOnce && number > plan().at) return Verdict::kGo;
  errno = plan().error;
  return Verdict::kFail;
}

bool fails(const char* name, const std::string& path, const std::string& to = {}) {
  const Verdict verdict = judge(name, path, to);
  if (verdict == Verdict::kTear) ::_exit(kDied);
  return verdict == Verdict::kFail;
}

}  // namespace

CutCalls::CutCalls(Cut cut, std::int64_t at, int error) {
  std::lock_guard lock(plan().mutex);
  plan().on = true;
  plan().cut = cut;
  plan().at = at;
  plan().error = error;
  plan().calls.clear();
}

CutCalls::~CutCalls() {
  std::lock_guard lock(plan().mutex);
  plan().on = false;
}

bool CutCalls::reached() const {
  std::lock_guard lock(plan().mutex);
  return plan().cut != Cut::kNone && static_cast<std::int64_t>(plan().calls.size()) >= plan().at;
}

std::vector<FileCall> CutCalls::made() const {
  std::lock_guard lock(plan().mutex);
  return plan().calls;
}

}  // namespace laconic::testing

namespace {

using laconic::testing::fails;
using laconic::testing::judge;
using laconic::testing::path_in;
using laconic::testing::path_of;
using laconic::testing::Verdict;

template <typename Function>
Function* real(Function* /*type*/, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

// Bytes to write, or -1: the call fails.
ssize_t torn(int descriptor, const void* bytes, size_t count) {
  const Verdict verdict = judge("write", path_of(descriptor));
  if (verdict == Verdict::kFail) return -1;
  if (verdict == Verdict::kGo) return static_cast<ssize_t>(count);
  static auto* const write_now = real(&::write, "write");
  if (write_now(descriptor, bytes, count / 2) < 0) ::_exit(1);
  ::_exit(laconic::testing::kDied);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  static auto* const call = real(&::open, "open");
  return fails("open", path) ? -1 : call(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  static auto* const call = real(&::openat, "openat");
  return fails("openat", path_in(folder, path)) ? -1 : call(folder, path, flags, mode);
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
  static auto* const call = real(&::write, "write");
  const ssize_t wanted = torn(descriptor, bytes, count);
  return wanted < 0 ? -1 : call(descriptor, bytes, static_cast<size_t>(wanted));
}

ssize_t pread(int descriptor, void* bytes, size_t count, off_t offset) {
  static auto* const call = real(&::pread, "pread");
  return fails("pread", path_of(descriptor)) ? -1 : call(descriptor, bytes, count, offset);
}

int fsync(int descriptor) { return fails("fsync", path_of(descriptor)) ? -1 : 0; }

int fdatasync(int descriptor) { return fails("fdatasync", path_of(descriptor)) ? -1 : 0; }

// As Linux does: the descriptor is gone even when it fails.
int close(int descriptor) {
  static auto* const call = real(&::close, "close");
  const bool failed = fails("close", path_of(descriptor));
  const int error = errno;
  const int result = call(descriptor);
  if (failed) errno = error;
  return failed ? -1 : result;
}

int rename(const char* from, const char* to) noexcept {
  static auto* const call = real(&::rename, "rename");
  return fails("rename", from, to) ? -1 : call(from, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const call = real(&::mkdir, "mkdir");
  return fails("mkdir", path) ? -1 : call(path, mode);
}

int unlink(const char* path) noexcept {
  static auto* const call = real(&::unlink, "unlink");
  return fails("unlink", path) ? -1 : call(path);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static auto* const call = real(&::unlinkat, "unlinkat");
  return fails("unlinkat", path_in(folder, path)) ? -1 : call(folder, path, flags);
}

int rmdir(const char* path) noexcept {
  static auto* const call = real(&::rmdir, "rmdir");
  return fails("rmdir", path) ? -1 : call(path);
}

int remove(const char* path) noexcept {
  static auto* const call = real(&::remove, "remove");
  return fails("remove", path) ? -1 : call(path);
}

}  // extern "C"
