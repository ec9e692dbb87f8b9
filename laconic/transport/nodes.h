#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "laconic/core/buffer.h"
#include "laconic/transport/transport.h"

namespace laconic::inline transport {

class Timeline;

inline constexpr int kFlat = 0;        // every rank is a node of its own
inline constexpr int kAutoNodes = -1;  // ranks that share memory (Transport::host) are a node

// Memory for messages that no exchange is using. Means over the same nodes exchange one after the
// other, so they take turns and need the memory of one. Thread-safe.
class SpareMemory {
 public:
  // At least `bytes`, with any content.
  Buffer<std::byte> take(std::size_t bytes);
  void give(Buffer<std::byte> memory);

 private:
  std::mutex mutex_;
  std::vector<Buffer<std::byte>> spare_;
};

// Where the ranks sit: `inside` joins the ranks of this node, `between` the ranks of all nodes that
// have this local rank. Flat: inside is null and between is the world itself.
struct Nodes {
  Transport* world = nullptr;
  std::unique_ptr<Transport> inside, across;  // null when flat
  int nodes = 1, per_node = 1, node = 0, local = 0;
  std::vector<int> ranks;  // of every node in turn; empty when flat
  std::shared_ptr<SpareMemory> messages = std::make_shared<SpareMemory>();
  Timeline* timeline = nullptr;  // where means note what they do; null: nowhere

  int rank_of(int node, int local) const {
    return ranks.empty()
               ? node
               : ranks[static_cast<std::size_t>(node) * static_cast<std::size_t>(per_node) +
                       static_cast<std::size_t>(local)];
  }

  Transport& between() const { return across ? *across : *world; }
};

// Collective. `ranks_per_node` is kFlat, kAutoNodes or a number. Throws Error(kInvalidArgument)
// when nodes would be unequal, naming the node and both counts. One rank a node is flat. The caller
// keeps `world` alive.
Nodes make_nodes(Transport& world, int ranks_per_node);

}  // namespace laconic::inline transport
