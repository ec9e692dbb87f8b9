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

  // A thread's share of the items, in a cache line of its own.
  struct alignas(64) Share {
    std::atomic<std::size_t> next{0};
    std::size_t end = 0;
  };

  explicit Shared(int threads) : shares(static_cast<std::size_t>(threads)) {}

  std::mutex mutex;
  std::condition_variable wake, finished;
  std::uint64_t generation = 0;
  bool stop = false;
  const Work* work = nullptr;
  std::vector<Share> shares;
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

  void share_out(std::size_t items) {
    std::size_t given = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      shares[i].next.store(given, std::memory_order_relaxed);
      given += items / shares.size() + (i < items % shares.size() ? 1 : 0);
      shares[i].end = given;
    }
  }

  // The thread's own share, then what is left of the others'.
  void drain(int thread) {
    const auto own = static_cast<std::size_t>(thread);
    try {
      for (std::size_t k = 0; k < shares.size(); ++k) {
        Share& share = shares[(own + k) % shares.size()];
        for (std::size_t i; (i = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;)
          (*work)(i, thread);
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      for (Share& share : shares) share.next.store(share.end, std::memory_order_relaxed);
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

Pool::Pool(int threads) : threads_(threads) {
  if (threads < 1) fail(Code::kInvalidArgument, "a pool needs at least 1 thread, not {}", threads);
  shared_ = std::make_unique<Shared>(threads);
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
    s.share_out(items);
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
