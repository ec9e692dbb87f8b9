#include "laconic/transport/threads.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "laconic/core/error.h"
#include "laconic/transport/engine.h"

namespace laconic::inline transport {
namespace {

using Clock = std::chrono::steady_clock;
using Counter = std::atomic<std::uint64_t>;

struct Slot {
  const std::byte* in = nullptr;
  std::size_t bytes = 0;
  Exchange exchange;
};

// What a rank shows the others. A slot is written before `posted` counts it and not again before
// all have read it.
struct alignas(64) Member {
  Counter posted{0}, arrived{0}, read{0};  // arrived > read: it is reading the others' memory
  std::atomic<bool> left{false};
  std::array<Slot, kSlots> slots;

  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<int> waiters{0};

  // All orders are seq_cst: either the waiter sees the change or we see the waiter. Not a store:
  // qemu lets a load of ARM's pass one, and the waiter sleeps on. On x86 both are an xchg.
  template <typename T>
  void publish(std::atomic<T>& field, T value) {
    field.exchange(value);
    if (waiters.load() != 0) wake();
  }

  void wake() {
    { std::lock_guard lock(mutex); }
    changed.notify_all();
  }

  // False when the deadline passed.
  template <typename Done>
  bool wait(Done done, Clock::time_point deadline, int spins) {
    for (int i = 0; i <= spins; ++i)
      if (done()) return true;
    std::unique_lock lock(mutex);
    waiters.fetch_add(1);
    const bool in_time = changed.wait_until(lock, deadline, done);
    waiters.fetch_sub(1);
    return in_time;
  }
};

class Group {
 public:
  Group(Names names, int ranks, std::chrono::milliseconds timeout)
      : names_(std::move(names)),
        timeout_(timeout),
        spins_(std::thread::hardware_concurrency() >= static_cast<unsigned>(ranks) ? 100 : 0),
        ranks_(ranks),
        members_(std::make_unique<Member[]>(static_cast<std::size_t>(ranks))) {}

  int size() const noexcept { return ranks_; }
  Member& operator[](int rank) const noexcept { return members_[static_cast<std::size_t>(rank)]; }
  const Names& names() const noexcept { return names_; }
  std::chrono::milliseconds timeout() const noexcept { return timeout_; }
  bool failed() const noexcept { return failed_.load(); }

  // Waits until every peer's counter is beyond exchange `number`. A rank that left and is behind
  // fails the group; so does one that left at all when its memory is still to be read.
  void await(int me, Counter Member::*counter, std::uint64_t number) {
    const bool reads = counter == &Member::posted;
    const auto deadline = deadline_after(timeout_);
    for (int i = 1; i < ranks_; ++i) {
      const int peer = (me + i) % ranks_;
      Member& member = (*this)[peer];
      const auto ready = [&] {
        return (member.*counter).load() > number && !(reads && member.left.load());
      };
      const auto over = [&] { return ready() || member.left.load() || failed(); };
      if (!member.wait(over, deadline, spins_)) throw_timeout(me, counter, number);
      if (ready()) continue;
      if (failed()) throw_failure(me);
      throw_new(me, Code::kTimeout,
                fmt::format("{} left the group before exchange {} was over: see why it ended",
                            names_[peer], number));
    }
  }

  // Until the last rank is gone.
  void keep(Buffer<std::byte> memory) {
    std::lock_guard lock(keeping_);
    kept_.push_back(std::move(memory));
  }

  // The group fails with this error, unless it has failed before.
  [[noreturn]] void throw_new(int me, Code code, const std::string& message) {
    {
      std::lock_guard lock(failing_);
      if (!error_) error_.emplace(code, message);
      failed_.store(true);
    }
    for (int r = 0; r < ranks_; ++r) (*this)[r].wake();
    throw_failure(me);
  }

  // The caller may free what it posted as soon as we throw, so those who still read it come first.
  [[noreturn]] void throw_failure(int me) {
    Member& self = (*this)[me];
    self.publish(self.read, self.arrived.load());
    const auto deadline = deadline_after(timeout_);
    for (int r = 0; r < ranks_; ++r) {
      Member& member = (*this)[r];
      member.wait([&] { return member.left.load() || member.arrived.load() == member.read.load(); },
                  deadline, 0);
    }
    throw Error(error_->code(),
                error_->what());  // not a copy: those share a string between threads
  }

 private:
  [[noreturn]] void throw_timeout(int me, Counter Member::*counter, std::uint64_t number) {
    std::vector<int> missing;
    for (int r = 0; r < ranks_; ++r)
      if (r != me && ((*this)[r].*counter).load() <= number) missing.push_back(r);
    // It may have come just now: too late all the same.
    const std::string who = missing.empty() ? "a late rank" : names_.list(missing);
    throw_new(
        me, Code::kTimeout,
        fmt::format(
            "{} did not {} exchange {} within {} ms: see whether it lives and makes the same calls",
            who, counter == &Member::posted ? "post" : "finish", number, timeout_.count()));
  }

  const Names names_;
  const std::chrono::milliseconds timeout_;
  const int spins_;
  const int ranks_;
  const std::unique_ptr<Member[]> members_;
  std::mutex keeping_;
  std::vector<Buffer<std::byte>> kept_;
  std::mutex failing_;
  std::optional<Error> error_;  // written once, before failed_
  std::atomic<bool> failed_{false};
};

class Threads final : public Transport {
 public:
  Threads(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)),
        rank_(rank),
        self_((*group_)[rank]),
        first_(static_cast<std::size_t>(group_->size())) {}

  ~Threads() override { self_.publish(self_.left, true); }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return group_->size(); }
  std::uint64_t host() const noexcept override { return 0; }

  void post(const Exchange& exchange, std::span<const std::byte> in) override {
    flight_.check_post(kSlots);
    block_bytes(exchange, in.size(), size());
    check_group();
    self_.slots[flight_.posted % kSlots] = {in.data(), in.size(), exchange};
    self_.publish(self_.posted, ++flight_.posted);
  }

  Blocks arrive() override {
    flight_.check_arrive();
    check_group();
    mark_read();
    const std::uint64_t number = flight_.arrived;
    group_->await(rank_, &Member::posted, number);
    self_.publish(self_.arrived, ++flight_.arrived);
    check_group();  // after `arrived`: a rank that fails now waits for us
    return find_blocks(number);
  }

  void retire() override {
    flight_.check_retire();
    check_group();
    if (flight_.retired + 1 == flight_.arrived) mark_read();
    group_->await(rank_, &Member::read, flight_.retired);
    ++flight_.retired;
  }

  void keep(Buffer<std::byte> memory) noexcept override { group_->keep(std::move(memory)); }
  std::chrono::milliseconds timeout() const noexcept override { return group_->timeout(); }

  // The first of each color makes the new group; the others copy the pointer out of its memory.
  std::unique_ptr<Transport> split(int color) override {
    flight_.check_split(color);
    const std::vector<int> colors = gather(color);
    std::vector<int> members;
    int rank = 0;
    for (int r = 0; r < size(); ++r) {
      if (r == rank_) rank = static_cast<int>(members.size());
      if (colors[static_cast<std::size_t>(r)] == color) members.push_back(r);
    }
    std::shared_ptr<Group> group;
    if (rank == 0)
      group = std::make_shared<Group>(group_->names().part(members),
                                      static_cast<int>(members.size()), group_->timeout());
    const std::shared_ptr<Group>* mine = &group;
    post({.kind = Kind::kAllGather}, std::as_bytes(std::span(&mine, 1)));
    const Blocks blocks = arrive();
    const std::shared_ptr<Group>* made = nullptr;
    std::memcpy(&made, blocks[members[0]].data(), sizeof made);
    auto part = std::make_unique<Threads>(*made, rank);
    retire();
    return part;
  }

 private:
  void mark_read() { self_.publish(self_.read, flight_.arrived); }

  void check_group() {
    if (group_->failed()) group_->throw_failure(rank_);
  }

  Blocks find_blocks(std::uint64_t number) {
    const auto at = static_cast<std::size_t>(number % kSlots);
    const Slot& mine = self_.slots[at];
    const Exchange& exchange = mine.exchange;
    const std::size_t block = block_bytes(exchange, mine.bytes, size());
    const std::size_t offset =
        exchange.kind == Kind::kAllToAll ? block * static_cast<std::size_t>(rank_) : 0;
    for (int r = 0; r < size(); ++r) {
      check_match(number, mine, r, (*group_)[r].slots[at]);
      const int from = exchange.kind == Kind::kBroadcast ? exchange.root : r;
      const std::byte* in = (*group_)[from].slots[at].in;
      first_[static_cast<std::size_t>(r)] = in == nullptr ? nullptr : in + offset;
    }
    return {first_.data(), block};
  }

  void check_match(std::uint64_t number, const Slot& mine, int peer, const Slot& theirs) {
    const Exchange &a = mine.exchange, &b = theirs.exchange;
    const bool same_root = a.kind != Kind::kBroadcast || a.root == b.root;
    if (mine.bytes == theirs.bytes && a.kind == b.kind && same_root) return;
    group_->throw_new(
        rank_, Code::kInvalidArgument,
        fmt::format("exchange {} differs: {} {}, {} {}: make the same calls on every rank", number,
                    group_->names()[peer], describe(b, theirs.bytes), group_->names()[rank_],
                    describe(a, mine.bytes)));
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
  Member& self_;
  Flight flight_;
  std::vector<const std::byte*> first_;
};

bool only_misses_another(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error.code() == Code::kTimeout;
  } catch (...) {
    return false;
  }
}

}  // namespace

std::vector<std::unique_ptr<Transport>> make_threads(int ranks, std::chrono::milliseconds timeout) {
  if (ranks < 1) fail(Code::kInvalidArgument, "a group needs at least 1 rank, not {}", ranks);
  check_timeout(timeout);
  const auto group = std::make_shared<Group>(Names(ranks), ranks, timeout);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int r = 0; r < ranks; ++r) transports.push_back(std::make_unique<Threads>(group, r));
  return transports;
}

void run_threads(int ranks, const std::function<void(Transport&)>& work,
                 std::chrono::milliseconds timeout) {
  auto transports = make_threads(ranks, timeout);
  std::vector<std::exception_ptr> thrown(transports.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < transports.size(); ++r)
      threads.emplace_back([&work, &error = thrown[r], transport = std::move(transports[r])] {
        try {
          work(*transport);
        } catch (...) {
          error = std::current_exception();
        }
      });
  }
  for (const auto& one : thrown)
    if (one && !only_misses_another(one)) std::rethrow_exception(one);
  for (const auto& one : thrown)
    if (one) std::rethrow_exception(one);
}

}  // namespace laconic::inline transport
