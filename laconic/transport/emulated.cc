#include "laconic/transport/emulated.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "laconic/core/buffer.h"
#include "laconic/core/error.h"
#include "laconic/transport/engine.h"
#include "laconic/transport/wrapper.h"

namespace laconic::inline transport {
namespace {

using Clock = std::chrono::steady_clock;

void check_link(const char* which, const Link& link) {
  if (!(link.bytes_per_second > 0))
    fail(Code::kInvalidArgument, "the rate {} is {} bytes/s, it must be above 0", which,
         link.bytes_per_second);
  if (!(link.latency_seconds >= 0) || std::isinf(link.latency_seconds))
    fail(Code::kInvalidArgument, "the latency {} is {} s, it must be at least 0 and finite", which,
         link.latency_seconds);
}

Clock::duration seconds(double value) {
  return std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(value));
}

// Beside each exchange goes one of stamps: stamp r is the time at which rank r has the bytes. The
// ranks share a clock because they share a machine.
class Emulated final : public Wrapper {
 public:
  template <typename Inner>
  Emulated(Inner&& inner, std::shared_ptr<Network> network)
      : Wrapper(std::forward<Inner>(inner)),
        network_(std::move(network)),
        stamps_(static_cast<std::size_t>(kInFlight) * static_cast<std::size_t>(size())) {}

  void post(const Exchange& exchange, std::span<const std::byte> in) override {
    flight_.check_post(kInFlight);
    const std::size_t block = block_bytes(exchange, in.size(), size());
    const std::span<Stamp> stamps = stamps_of(flight_.posted);
    std::fill(stamps.begin(), stamps.end(), Stamp{});
    if (exchange.kind != Kind::kBroadcast || exchange.root == rank()) stamp(stamps, block);
    inner().post({.kind = Kind::kAllToAll, .continues = true}, std::as_bytes(stamps));
    inner().post(exchange, in);
    ++flight_.posted;
  }

  Blocks arrive() override {
    flight_.check_arrive();
    const Blocks stamps = inner().arrive();
    check_block_size(stamps, sizeof(Stamp));
    Stamp latest{};
    for (int r = 0; r < size(); ++r) {
      Stamp stamp;
      std::memcpy(&stamp, stamps[r].data(), sizeof stamp);
      latest = std::max(latest, stamp);
    }
    const Blocks blocks = inner().arrive();
    std::this_thread::sleep_until(Clock::time_point(Clock::duration(latest)));
    ++flight_.arrived;
    return blocks;
  }

  void retire() override {
    flight_.check_retire();
    inner().retire();
    inner().retire();
    ++flight_.retired;
  }

 private:
  using Stamp = Clock::rep;

  std::unique_ptr<Transport> wrap(Part part) override {
    return std::make_unique<Emulated>(std::move(part), network_);
  }

  std::span<Stamp> stamps_of(std::uint64_t number) const {
    const auto ranks = static_cast<std::size_t>(size());
    return stamps_.span().subspan(static_cast<std::size_t>(number % kInFlight) * ranks, ranks);
  }

  void stamp(std::span<Stamp> stamps, std::size_t bytes) {
    for (int i = 1; i < size(); ++i) {
      const int peer = (rank() + i) % size();
      const auto when = network_->send(world_rank(rank()), world_rank(peer), bytes);
      stamps[static_cast<std::size_t>(peer)] = when.time_since_epoch().count();
    }
  }

  const std::shared_ptr<Network> network_;
  Flight flight_;
  Buffer<Stamp> stamps_;  // kInFlight rows of one stamp a rank
};

}  // namespace

Network::Network(int ranks, int ranks_per_node, Link between_nodes, Link inside_node)
    : ranks_per_node_(ranks_per_node), inside_(inside_node) {
  if (ranks < 1 || ranks_per_node < 1 || ranks % ranks_per_node != 0)
    fail(Code::kInvalidArgument, "{} ranks do not divide into nodes of {}", ranks, ranks_per_node);
  check_link("between nodes", between_nodes);
  check_link("inside a node", inside_node);
  card_free_.resize(static_cast<std::size_t>(ranks / ranks_per_node));
  between_.assign(card_free_.size(), between_nodes);
  rank_free_.resize(static_cast<std::size_t>(ranks));
}

void Network::set_between_nodes(Link link) {
  check_link("between nodes", link);
  std::lock_guard lock(mutex_);
  between_.assign(between_.size(), link);
}

void Network::set_between_nodes(int node, Link link) {
  check_link("between nodes", link);
  if (node < 0 || static_cast<std::size_t>(node) >= between_.size())
    fail(Code::kInvalidArgument, "a link of node {} on a network of {} nodes", node,
         between_.size());
  std::lock_guard lock(mutex_);
  between_[static_cast<std::size_t>(node)] = link;
}

Network::Time Network::send(int from, int to, std::size_t bytes) {
  const int ranks = static_cast<int>(rank_free_.size());
  if (from < 0 || from >= ranks || to < 0 || to >= ranks)
    fail(Code::kInvalidArgument, "rank {} sends to rank {} on a network of {} ranks", from, to,
         ranks);
  const int node = from / ranks_per_node_;
  const bool inside = node == to / ranks_per_node_;
  std::lock_guard lock(mutex_);
  const Link& link = inside ? inside_ : between_[static_cast<std::size_t>(node)];
  Time& free = inside ? rank_free_[static_cast<std::size_t>(from)]
                      : card_free_[static_cast<std::size_t>(node)];
  free = std::max(Clock::now(), free) + seconds(static_cast<double>(bytes) / link.bytes_per_second);
  return free + seconds(link.latency_seconds);
}

std::unique_ptr<Transport> make_emulated(Transport& inner, std::shared_ptr<Network> network) {
  if (!network) fail(Code::kInvalidArgument, "make_emulated needs a network");
  return std::make_unique<Emulated>(inner, std::move(network));
}

}  // namespace laconic::inline transport
