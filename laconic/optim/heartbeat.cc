#include "laconic/optim/heartbeat.h"

#include <algorithm>
#include <chrono>
#include <span>

namespace laconic::inline optim {
namespace {

constexpr std::chrono::milliseconds kLongest{1000}, kIdle{100};

}  // namespace

// A rank that ends waits for the next beat of the others, so beats come well within the timeout. The
// first one makes what a transport allocates.
Heartbeat::Heartbeat(Transport& transport)
    : group_(transport.split(0)), interval_(std::min(kLongest, transport.timeout() / 4)) {
  beat({});
  thread_ = std::thread([this] { loop(); });
}

Heartbeat::~Heartbeat() { stop(); }

void Heartbeat::check(std::int64_t step) {
  std::lock_guard lock(mutex_);
  if (error_) throw Error(error_->code(), error_->what());
  if (ended_ >= 0 && step > ended_after_)
    fail(Code::kTransport,
         "rank {} ended after step {}, rank {} goes on after step {}: see why it ended", ended_,
         ended_after_, group_->rank(), step - 1);
}

void Heartbeat::count(std::int64_t steps) {
  std::lock_guard lock(mutex_);
  steps_ = steps;
}

void Heartbeat::stop() noexcept {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
    while (!changed_.wait_for(lock, kIdle, [this] { return over_; })) {
      lock.unlock();
      group_->idle();
      lock.lock();
    }
  }
  thread_.join();
}

void Heartbeat::loop() {
  for (bool goes_on = true; goes_on;) {
    Beat mine;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, interval_, [this] { return stop_; });
      mine = {steps_, stop_ ? 1 : 0};
    }
    std::optional<Error> error;
    try {
      goes_on = beat(mine);
    } catch (const Error& found) {
      error.emplace(found.code(), fmt::format("between exchanges: {}", found.what()));
      goes_on = false;
    } catch (...) {  // an interrupt, which its own thread meets too
      goes_on = false;
    }
    std::lock_guard lock(mutex_);
    if (error) error_.emplace(error->code(), error->what());
    note_ended();
    over_ = !goes_on;
  }
  changed_.notify_all();
}

bool Heartbeat::beat(const Beat& mine) {
  group_->gather(std::span(&mine, 1), all_);
  return std::ranges::all_of(all_, [](const Beat& one) { return one.ends == 0; });
}

void Heartbeat::note_ended() {
  for (std::size_t r = 0; r < all_.size(); ++r)
    if (all_[r].ends != 0 && (ended_ < 0 || all_[r].steps < ended_after_)) {
      ended_ = static_cast<int>(r);
      ended_after_ = all_[r].steps;
    }
}

}  // namespace laconic::inline optim
