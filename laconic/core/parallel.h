#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace laconic::inline core {

// A reference to a callable: two pointers, no allocation. The callable must outlive the call.
template <typename Signature>
class FunctionRef;

template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
           std::is_invocable_r_v<R, F&, Args...>) FunctionRef(F&& f)
  noexcept  // NOLINT: implicit, like std::function
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

// A fixed set of threads for loops over independent items. The caller works too, so Pool(1) starts
// no thread. One run at a time per Pool.
class Pool {
 public:
  // REQUIRES: threads >= 1 (throws otherwise). Error(kUnavailable) when a thread cannot be started.
  explicit Pool(int threads = 1);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const noexcept { return threads_; }

  // Calls work(item, thread) for every item in [0, items), thread in [0, threads()). Returns when
  // all are done; rethrows the first exception. A thread gets neighbours, in order, and the same ones
  // each time, since a core asks for what lies behind what it reads; one that is done takes from the
  // others, so which thread gets which item is not fixed.
  void run(std::size_t items, FunctionRef<void(std::size_t item, int thread)> work);

 private:
  struct Shared;
  int threads_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace laconic::inline core
