// Preloaded into the ranks of a fault campaign: the n-th call of a function is this rank's last,
// the start of a long sleep, or the first that fails.
//
//   FAULT_CALL=MPI_Isend:17:kill   or :stop, or the name of an error (write:3:ENOSPC), with which
//                                  all later calls fail too
//   FAULT_RANK=1                   the rank that it is about; not set: ranks that are threads
//   FAULT_MARK=FILE                made when it happens; while it exists, nothing happens
//   FAULT_COUNTS=FOLDER            instead: how often each function was called, to FOLDER/<rank>
//                                  at the end
//
// Of writes, fsyncs, renames and opens for writing only those on files of FAULT_FOLDER count.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#ifdef FAULTY_MPI
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#endif

namespace {

struct Call {
  const char* name;
  std::atomic<long> count{0};
};
Call calls[] = {{"write"}, {"fsync"},     {"rename"},    {"open"},        {"writev"},
                {"recv"},  {"MPI_Isend"}, {"MPI_Irecv"}, {"MPI_Testsome"}};

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

const char* rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK"})
    if (*setting(name) != '\0') return setting(name);
  return "";
}

struct Fault {
  std::string call, action;
  long number = 0;
  int error = 0;
};

Fault parse_fault() {
  Fault fault;
  char call[32] = "", action[32] = "";
  if (std::sscanf(setting("FAULT_CALL"), "%31[^:]:%ld:%31s", call, &fault.number, action) != 3 ||
      std::strcmp(rank(), setting("FAULT_RANK")) != 0)
    return fault;
  fault.call = call;
  fault.action = action;
  const struct {
    const char* name;
    int value;
  } errors[] = {{"ENOSPC", ENOSPC}, {"EROFS", EROFS}, {"EIO", EIO}};
  for (const auto& one : errors)
    if (fault.action == one.name) fault.error = one.value;
  return fault;
}

const Fault& fault() {
  static const Fault one = parse_fault();
  return one;
}

template <typename Function>
Function* real(const char* name, Function*) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool mark() {
  static const auto next = real("open", &open);
  return next(setting("FAULT_MARK"), O_WRONLY | O_CREAT | O_EXCL, 0666) >= 0;
}

// Counts this call. True: it shall fail, errno says how.
bool fails(const char* name) {
  static std::atomic<bool> failing{false};
  Call* call = calls;
  while (std::strcmp(call->name, name) != 0) ++call;
  const long number = ++call->count;
  const Fault& wanted = fault();
  if (wanted.call != name || number < wanted.number) return false;
  if (number == wanted.number && mark()) {
    if (wanted.error == 0) kill(getpid(), wanted.action == "stop" ? SIGSTOP : SIGKILL);
    failing = wanted.error != 0;
  }
  if (failing) errno = wanted.error;
  return failing;
}

bool watched(const char* path) {
  const char* folder = setting("FAULT_FOLDER");
  return *folder != '\0' && std::strncmp(path, folder, std::strlen(folder)) == 0;
}

bool watched(int descriptor) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const auto length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = '\0';
  return watched(path);
}

struct AtEnd {
  ~AtEnd() {
    if (*setting("FAULT_COUNTS") == '\0') return;
    const std::string path = std::string(setting("FAULT_COUNTS")) + "/rank" + rank();
    std::FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr) return;
    for (const Call& call : calls) std::fprintf(file, "%s %ld\n", call.name, call.count.load());
    std::fclose(file);
  }
} at_end;

}  // namespace

#define REAL(function) static const auto next = real(#function, &function)

extern "C" {

ssize_t write(int descriptor, const void* bytes, size_t size) {
  REAL(write);
  if (watched(descriptor) && fails("write")) return -1;
  return next(descriptor, bytes, size);
}

int fsync(int descriptor) {
  REAL(fsync);
  if (watched(descriptor) && fails("fsync")) return -1;
  return next(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  REAL(rename);
  if (watched(from) && fails("rename")) return -1;
  return next(from, to);
}

int open(const char* path, int flags, ...) {
  REAL(open);
  va_list rest;
  va_start(rest, flags);
  const auto mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : mode_t{0};
  va_end(rest);
  if ((flags & (O_WRONLY | O_RDWR)) != 0 && watched(path) && fails("open")) return -1;
  return next(path, flags, mode);
}

ssize_t writev(int descriptor, const iovec* pieces, int count) {
  REAL(writev);
  if (fails("writev")) return -1;
  return next(descriptor, pieces, count);
}

ssize_t recv(int descriptor, void* bytes, size_t size, int flags) {
  REAL(recv);
  if (fails("recv")) return -1;
  return next(descriptor, bytes, size, flags);
}

#ifdef FAULTY_MPI
int MPI_Isend(const void* bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  REAL(MPI_Isend);
  fails("MPI_Isend");
  return next(bytes, count, type, to, tag, comm, request);
}

int MPI_Irecv(void* bytes, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  REAL(MPI_Irecv);
  fails("MPI_Irecv");
  return next(bytes, count, type, from, tag, comm, request);
}

int MPI_Testsome(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses) {
  REAL(MPI_Testsome);
  fails("MPI_Testsome");
  return next(count, requests, done, indices, statuses);
}
#endif

}  // extern "C"
