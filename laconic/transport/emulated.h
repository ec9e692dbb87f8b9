#pragma once

#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "laconic/transport/transport.h"

namespace laconic::inline transport {

struct Link {
  double bytes_per_second = std::numeric_limits<double>::infinity();
  double latency_seconds = 0;
};

// A slow network without root: each node has one full-duplex network card shared by its ranks;
// links inside a node are apart, one per rank. Shared by the ranks of a process; thread-safe. Sending
// is what takes time: collectives here send and receive alike, so a card that receives no faster
// would change nothing.
class Network {
 public:
  // REQUIRES: ranks_per_node >= 1 and it divides ranks; rates > 0, latencies >= 0 (throws
  // otherwise).
  Network(int ranks, int ranks_per_node, Link between_nodes, Link inside_node = {});

  void set_between_nodes(Link link);
  // Of one node's card alone.
  void set_between_nodes(int node, Link link);
  // When `bytes` that rank `from` hands over now will be with rank `to`.
  std::chrono::steady_clock::time_point send(int from, int to, std::size_t bytes);

 private:
  using Time = std::chrono::steady_clock::time_point;
  std::mutex mutex_;
  int ranks_per_node_;
  std::vector<Link> between_;  // of each node's card
  Link inside_;
  std::vector<Time> card_free_, rank_free_;
};

// Holds back what passes through `inner` as `network` models. The caller keeps `inner` alive. Ranks
// in several processes of one machine work too, each with a Network of its own whose rate is its
// share of the card.
std::unique_ptr<Transport> make_emulated(Transport& inner, std::shared_ptr<Network> network);

}  // namespace laconic::inline transport
