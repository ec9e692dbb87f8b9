#include "laconic/transport/faulty.h"

#include <atomic>
#include <deque>
#include <vector>

#include "laconic/core/error.h"
#include "laconic/transport/wrapper.h"

namespace laconic::inline transport {
namespace {

class Faulty final : public Wrapper {
 public:
  struct State {
    explicit State(Faults given) : faults(std::move(given)) {}
    Faults faults;
    std::atomic<std::int64_t> posted = 0;  // by any thread
  };

  template <typename Inner>
  Faulty(Inner&& inner, std::shared_ptr<State> state)
      : Wrapper(std::forward<Inner>(inner)),
        state_(std::move(state)),
        copies_(static_cast<std::size_t>(size())),
        first_(static_cast<std::size_t>(size())) {}

  void post(const Exchange& exchange, std::span<const std::byte> in) override {
    const Faults& faults = state_->faults;
    const std::int64_t number = state_->posted.load();
    if (faults.die_at >= 0 && number >= faults.die_at)
      fail(Code::kTransport, "injected fault: rank {} fails at exchange {}", world_rank(rank()),
           number);
    if (faults.before_post) faults.before_post(number);
    inner().post(exchange, in);
    ++state_->posted;
    numbers_.push_back(number);
  }

  Blocks arrive() override {
    const Blocks blocks = inner().arrive();
    const std::int64_t number = numbers_.front();
    numbers_.pop_front();
    if (!state_->faults.on_arrival) return blocks;
    for (int r = 0; r < size(); ++r) {
      auto& copy = copies_[static_cast<std::size_t>(r)];
      copy.assign(blocks[r].begin(), blocks[r].end());
      state_->faults.on_arrival(number, r, copy);
      first_[static_cast<std::size_t>(r)] = copy.data();
    }
    return {first_.data(), blocks.block_size()};
  }

 private:
  std::unique_ptr<Transport> wrap(Part part) override {
    return std::make_unique<Faulty>(std::move(part), state_);
  }

  const std::shared_ptr<State> state_;  // one count for a transport and its splits
  std::deque<std::int64_t> numbers_;    // posted and not arrived
  std::vector<std::vector<std::byte>> copies_;
  std::vector<const std::byte*> first_;
};

}  // namespace

std::unique_ptr<Transport> make_faulty(Transport& inner, Faults faults) {
  return std::make_unique<Faulty>(inner, std::make_shared<Faulty::State>(std::move(faults)));
}

}  // namespace laconic::inline transport
