#include "laconic/core/parallel.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "laconic/core/error.h"

namespace laconic::inline core {

struct Pool::Shared {
  using Work = FunctionRef<void(std::size_t, int)>;

  std::mutex mutex;
  std::condition_variable wake, finished;
  std::uint64_t generation = 0;
  bool stop = false;
  const Work* work = nullptr;
  std::size_t items = 0;
  std::atomic<std::size_t> next{0};
  int busy = 0;
  std::exception_ptr error;
  std::vector<std::jthread> threads;

  // Ends the threads that were started, be they all or not.
  ~Shared() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_all();
    threads.clear();
  }

  void drain(int thread) {
    try {
      for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;)
        (*work)(i, thread);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      next.store(items, std::memory_order_relaxed);
    }
  }

  void loop(int thread) {
    std::uint64_t seen = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stop || generation != seen; });
        if (stop) return;
        seen = generation;
      }
      drain(thread);
      std::lock_guard lock(mutex);
      if (--busy == 0) finished.notify_one();
    }
  }
};

Pool::Pool(int threads) : threads_(threads), shared_(std::make_unique<Shared>()) {
  if (threads < 1) fail(Code::kInvalidArgument, "a pool needs at least 1 thread, not {}", threads);
  try {
    for (int i = 1; i < threads; ++i)
      shared_->threads.emplace_back([shared = shared_.get(), i] { shared->loop(i); });
  } catch (const std::system_error& error) {
    fail(Code::kUnavailable,
         "a pool of {} threads: {} run, no other can be started ({}): use fewer", threads,
         shared_->threads.size() + 1, error.what());
  }
}

Pool::~Pool() = default;

void Pool::run(std::size_t items, FunctionRef<void(std::size_t, int)> work) {
  if (threads_ == 1 || items <= 1) {
    for (std::size_t i = 0; i < items; ++i) work(i, 0);
    return;
  }
  Shared& s = *shared_;
  {
    std::lock_guard lock(s.mutex);
    s.work = &work;
    s.items = items;
    s.next.store(0, std::memory_order_relaxed);
    s.busy = threads_ - 1;
    s.error = nullptr;
    ++s.generation;
  }
  s.wake.notify_all();
  s.drain(0);
  std::unique_lock lock(s.mutex);
  s.finished.wait(lock, [&] { return s.busy == 0; });
  if (s.error) std::rethrow_exception(std::exchange(s.error, nullptr));
}

}  // namespace laconic::inline core
