#include "app/training/restarts.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "app/failure.h"
#include "laconic/core/error.h"

namespace laconic::app::training {
namespace {

std::atomic<pid_t> child{0};
std::atomic<int> asked_to_stop{0};
static_assert(std::atomic<pid_t>::is_always_lock_free);

void pass_on(int signal) {
  asked_to_stop = signal;
  if (child > 0) ::kill(child, signal);
}

// A process group of its own: a Ctrl-C at the terminal reaches it once, through pass_on.
[[noreturn]] void become(char* const* arguments, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kSignalBase + SIGTERM);
  ::execv("/proc/self/exe", arguments);
  ::_exit(127);
}

int exit_code_of(const std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  for (const std::string& one : arguments) pointers.push_back(const_cast<char*>(one.c_str()));
  pointers.push_back(nullptr);
  const pid_t parent = ::getpid(), started = ::fork();
  if (started < 0) fail(Code::kUnavailable, "cannot start a process: {}", std::strerror(errno));
  if (started == 0) become(pointers.data(), parent);
  child = started;
  if (const int signal = asked_to_stop) ::kill(started, signal);  // came before `child` was set
  int status = 0;
  while (::waitpid(started, &status, 0) < 0 && errno == EINTR) {
  }
  child = 0;
  return WIFSIGNALED(status) ? kSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string ending(int code) {
  if (code > kSignalBase) return fmt::format("signal {} ended the run", code - kSignalBase);
  return "a rank was lost";
}

}  // namespace

int run_with_restarts(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& again, int restarts) {
  for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, pass_on);
  std::vector<std::string> more = arguments;
  more.insert(more.end(), again.begin(), again.end());
  int code = exit_code_of(arguments);
  for (int restart = 1; restart <= restarts; ++restart) {
    const bool died = code > kSignalBase || code == kRankLost;
    const bool stopped =
        asked_to_stop != 0 || code == kSignalBase + SIGINT || code == kSignalBase + SIGTERM;
    if (!died || stopped) break;
    fmt::print(stderr, "laconic: {}; restart {} of {}\n", ending(code), restart, restarts);
    code = exit_code_of(more);
  }
  return code;
}

}  // namespace laconic::app::training
