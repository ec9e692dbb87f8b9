#include "laconic/optim/queue.h"

#include "laconic/core/error.h"

namespace laconic::inline optim {

StepQueue::StepQueue(int buckets, std::function<void(int)> work, std::function<void()> idle)
    : work_(std::move(work)), idle_(std::move(idle)), ready_(static_cast<std::size_t>(buckets)) {}

StepQueue::~StepQueue() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StepQueue::begin() {
  std::lock_guard lock(mutex_);
  ready_.assign(ready_.size(), false);
  next_ = static_cast<int>(ready_.size()) - 1;
  started_ = all_ready_ = false;
  error_ = nullptr;
}

void StepQueue::ready(int bucket, bool now) {
  {
    std::lock_guard lock(mutex_);
    if (ready_[static_cast<std::size_t>(bucket)])
      fail(Code::kInvalidArgument, "bucket {} is ready for the second time in this step", bucket);
    ready_[static_cast<std::size_t>(bucket)] = true;
    if (!now) return;
    started_ = true;
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  }
  changed_.notify_all();
}

bool StepQueue::is_ready(int bucket) {
  std::lock_guard lock(mutex_);
  return has(bucket);
}

void StepQueue::finish() {
  std::unique_lock lock(mutex_);
  all_ready_ = true;
  if (started_) {
    changed_.notify_all();
    while (!changed_.wait_for(lock, kIdle, [this] { return next_ < 0; })) {
      lock.unlock();
      idle_();
      lock.lock();
    }
  } else {
    run(lock);
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void StepQueue::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || (started_ && next_ >= 0 && has(next_)); });
    if (stop_) return;
    run(lock);
    changed_.notify_all();
  }
}

// As far as buckets are ready.
void StepQueue::run(std::unique_lock<std::mutex>& lock) {
  while (next_ >= 0 && !stop_ && has(next_)) {
    const int bucket = next_;
    lock.unlock();
    std::exception_ptr error;
    try {
      work_(bucket);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) error_ = error;
    next_ = error ? -1 : next_ - 1;
  }
}

}  // namespace laconic::inline optim
