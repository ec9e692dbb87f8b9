#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace laconic::inline optim {

// One ordered queue a rank: buckets are worked on from the last to the first, whatever the order in
// which they become ready, so that all ranks exchange them in the same order. Work runs on a thread
// of the queue's own while the caller goes on; where nothing became ready before finish() it runs
// there.
class StepQueue {
 public:
  // `idle` is called every kIdle by a finish() that waits for the queue's thread; it does not throw.
  StepQueue(
      int buckets, std::function<void(int bucket)> work, std::function<void()> idle = [] {});
  ~StepQueue();
  StepQueue(const StepQueue&) = delete;
  StepQueue& operator=(const StepQueue&) = delete;

  void begin();
  // `now`: work may start. Throws Error(kInvalidArgument) when the bucket is ready already.
  void ready(int bucket, bool now);
  // So far. Any thread.
  bool is_ready(int bucket);
  // All are ready; returns when all are done. Rethrows what the work threw.
  void finish();

 private:
  static constexpr std::chrono::milliseconds kIdle{100};

  void loop();
  void run(std::unique_lock<std::mutex>& lock);
  // With the mutex.
  bool has(int bucket) const { return all_ready_ || ready_[static_cast<std::size_t>(bucket)]; }

  const std::function<void(int)> work_;
  const std::function<void()> idle_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> ready_;
  int next_ = -1;         // the bucket to work on; -1: none is left
  bool started_ = false;  // the thread has this step
  bool all_ready_ = false, stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // made by the first ready()
};

}  // namespace laconic::inline optim
