#include "laconic/transport/metered.h"

#include "laconic/core/error.h"
#include "laconic/transport/engine.h"
#include "laconic/transport/wrapper.h"

namespace laconic::inline transport {
namespace {

class Metered final : public Wrapper {
 public:
  template <typename Inner>
  Metered(Inner&& inner, Traffic& traffic, int ranks_per_node)
      : Wrapper(std::forward<Inner>(inner)), traffic_(traffic), ranks_per_node_(ranks_per_node) {
    for (int r = 0; r < size(); ++r)
      if (r != rank()) ++(node_of(r) == node_of(rank()) ? peers_inside_ : peers_between_);
  }

  void post(const Exchange& exchange, std::span<const std::byte> in) override {
    inner().post(exchange, in);
    Traffic::Count& count = traffic_.of[static_cast<std::size_t>(exchange.kind)];
    ++count.exchanges;
    if (!exchange.continues) ++count.rounds;
    if (exchange.kind == Kind::kBroadcast && exchange.root != rank()) return;
    const std::size_t block = block_bytes(exchange, in.size(), size());
    count.bytes_inside += block * peers_inside_;
    count.bytes_between += block * peers_between_;
  }

 private:
  std::unique_ptr<Transport> wrap(Part part) override {
    return std::make_unique<Metered>(std::move(part), traffic_, ranks_per_node_);
  }

  int node_of(int rank) const noexcept {
    return ranks_per_node_ == 0 ? world_rank(rank) : world_rank(rank) / ranks_per_node_;
  }

  Traffic& traffic_;
  const int ranks_per_node_;
  std::size_t peers_inside_ = 0, peers_between_ = 0;
};

}  // namespace

Traffic::Count Traffic::total() const noexcept {
  Count sum;
  for (const Count& count : of) {
    sum.rounds += count.rounds;
    sum.exchanges += count.exchanges;
    sum.bytes_inside += count.bytes_inside;
    sum.bytes_between += count.bytes_between;
  }
  return sum;
}

std::unique_ptr<Transport> make_metered(Transport& inner, Traffic& traffic, int ranks_per_node) {
  if (ranks_per_node < 0)
    fail(Code::kInvalidArgument, "ranks_per_node is {}, it must be at least 0", ranks_per_node);
  return std::make_unique<Metered>(inner, traffic, ranks_per_node);
}

}  // namespace laconic::inline transport
