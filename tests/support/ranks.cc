#include "tests/support/ranks.h"

#include <utility>

#include "laconic/core/error.h"
#include "laconic/transport/threads.h"

namespace laconic {
namespace {

struct Processes {
  int size = 0;  // 0: ranks are threads
  std::function<std::unique_ptr<Transport>(const RunOptions&)> make;
  EngineLimits limits;
};

Processes& processes() {
  static Processes instance;
  return instance;
}

}  // namespace

void run_ranks(int n, const std::function<void(Transport&)>& fn, const RunOptions& options) {
  if (!ranks_are_threads()) {
    if (n != processes().size)
      fail(Code::kInvalidArgument, "the test wants {} ranks, the launcher started {}", n,
           processes().size);
    fn(*processes().make(options));
    return;
  }
  run_threads(n, fn, options.timeout);
}

std::vector<int> rank_counts() {
  if (ranks_are_threads()) return {1, 2, 3, 4, 8};
  return {processes().size};
}

bool ranks_are_threads() { return processes().size == 0; }

const EngineLimits& engine_limits() { return processes().limits; }

void use_processes(int size, std::function<std::unique_ptr<Transport>(const RunOptions&)> make,
                   const EngineLimits& limits) {
  processes() = {size, std::move(make), limits};
}

}  // namespace laconic
