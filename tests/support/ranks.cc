#include "tests/support/ranks.h"

#include <exception>
#include <thread>
#include <utility>

#include "laconic/core/error.h"
#include "laconic/transport/threads.h"

namespace laconic {
namespace {

struct Processes {
  int size = 0;  // 0: ranks are threads
  std::function<std::unique_ptr<Transport>(const RunOptions&)> make;
};

Processes& processes() {
  static Processes instance;
  return instance;
}

bool only_misses_another(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error.code() == Code::kTimeout;
  } catch (...) {
    return false;
  }
}

void rethrow_first(const std::vector<std::exception_ptr>& thrown) {
  for (const auto& one : thrown)
    if (one && !only_misses_another(one)) std::rethrow_exception(one);
  for (const auto& one : thrown)
    if (one) std::rethrow_exception(one);
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
  auto transports = make_threads(n, options.timeout);
  std::vector<std::exception_ptr> thrown(transports.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < transports.size(); ++r)
      threads.emplace_back([&fn, &error = thrown[r], transport = std::move(transports[r])] {
        try {
          fn(*transport);
        } catch (...) {
          error = std::current_exception();
        }
      });
  }
  rethrow_first(thrown);
}

std::vector<int> rank_counts() {
  if (ranks_are_threads()) return {1, 2, 3, 4, 8};
  return {processes().size};
}

bool ranks_are_threads() { return processes().size == 0; }

void use_processes(int size, std::function<std::unique_ptr<Transport>(const RunOptions&)> make) {
  processes() = {size, std::move(make)};
}

}  // namespace laconic
