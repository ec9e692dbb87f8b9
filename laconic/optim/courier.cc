#include "laconic/optim/courier.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace laconic::inline optim {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kIdle{100};

void add(Traffic::Count& sum, const Traffic::Count& more) {
  sum.rounds += more.rounds;
  sum.exchanges += more.exchanges;
  sum.bytes_inside += more.bytes_inside;
  sum.bytes_between += more.bytes_between;
}

Traffic::Count since(const Traffic::Count& before, const Traffic::Count& now) {
  return {now.rounds - before.rounds, now.exchanges - before.exchanges,
          now.bytes_inside - before.bytes_inside, now.bytes_between - before.bytes_between};
}

}  // namespace

Courier::Courier(Transport& transport, const OptimizerConfig& config)
    : group_(transport.split(0)),
      metered_(make_metered(*group_, traffic_, std::max(0, config.ranks_per_node))),
      nodes_(make_nodes(*metered_, config.ranks_per_node)),
      device_(make_device(config.device, config.threads)) {}

Courier::~Courier() { stop(); }

void Courier::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Courier::serve(int buckets, std::function<void(int)> work) {
  work_ = std::move(work);
  errands_.resize(static_cast<std::size_t>(buckets));
  queue_.resize(static_cast<std::size_t>(buckets));
}

void Courier::post(int bucket) {
  {
    std::lock_guard lock(mutex_);
    errands_[static_cast<std::size_t>(bucket)].under_way = true;
    queue_[(first_ + queued_++) % queue_.size()] = bucket;
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  }
  changed_.notify_all();
}

void Courier::wait(int bucket) {
  Errand& errand = errands_[static_cast<std::size_t>(bucket)];
  const auto begin = Clock::now();
  wait_until([&] { return !errand.under_way; });
  waited_ += std::chrono::duration<double>(Clock::now() - begin).count();
  add(sent_, std::exchange(errand.sent, {}));
}

void Courier::wait_for_all() {
  wait_until([this] {
    return std::ranges::none_of(errands_, [](const Errand& one) { return one.under_way; });
  });
}

void Courier::wait_until(const std::function<bool()>& done) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kIdle, [&] { return error_ || done(); })) {
    lock.unlock();
    group_->idle();
    lock.lock();
  }
  if (error_) std::rethrow_exception(error_);
}

void Courier::loop() {
  for (;;) {
    int bucket = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || queued_ > 0; });
      if (error_ || queued_ == 0) return;  // what others wait for too is finished first
      bucket = queue_[first_];
      first_ = (first_ + 1) % queue_.size();
      --queued_;
    }
    run(bucket);
    changed_.notify_all();
  }
}

void Courier::run(int bucket) {
  const Traffic::Count before = traffic_.total();
  std::exception_ptr error;
  try {
    work_(bucket);
  } catch (...) {
    error = std::current_exception();
  }
  std::lock_guard lock(mutex_);
  if (error) error_ = error;
  Errand& errand = errands_[static_cast<std::size_t>(bucket)];
  errand.sent = since(before, traffic_.total());
  errand.under_way = false;
}

}  // namespace laconic::inline optim
