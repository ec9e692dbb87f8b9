#include "laconic/transport/nodes.h"

#include <algorithm>
#include <vector>

#include "laconic/core/error.h"

namespace laconic::inline transport {
namespace {

struct Place {
  int nodes, per_node, node, local;
  std::vector<int> ranks = {};  // of every node in turn
};

Place place_by_number(const Transport& world, int per_node) {
  if (per_node < 1)
    fail(Code::kInvalidArgument, "ranks_per_node is {}: give a number from 1, kFlat or kAutoNodes",
         per_node);
  if (world.size() % per_node != 0)
    fail(Code::kInvalidArgument, "{} ranks do not divide into nodes of {}: choose a divisor of {}",
         world.size(), per_node, world.size());
  Place place{world.size() / per_node, per_node, world.rank() / per_node, world.rank() % per_node};
  for (int r = 0; r < world.size(); ++r) place.ranks.push_back(r);
  return place;
}

// Nodes are numbered by their first rank.
Place place_by_host(Transport& world) {
  const std::vector<std::uint64_t> hosts = world.gather(world.host());
  std::vector<std::uint64_t> seen;
  std::vector<int> counts, node_of;
  Place place{};
  for (int r = 0; r < world.size(); ++r) {
    const auto at =
        std::find(seen.begin(), seen.end(), hosts[static_cast<std::size_t>(r)]) - seen.begin();
    const auto node = static_cast<std::size_t>(at);
    if (node == seen.size()) {
      seen.push_back(hosts[static_cast<std::size_t>(r)]);
      counts.push_back(0);
    }
    if (r == world.rank()) {
      place.node = static_cast<int>(node);
      place.local = counts[node];
    }
    ++counts[node];
    node_of.push_back(static_cast<int>(node));
  }
  for (std::size_t k = 1; k < counts.size(); ++k)
    if (counts[k] != counts[0])
      fail(Code::kInvalidArgument,
           "node {} has {} ranks, node 0 has {}: start equally many on every node, or use flat", k,
           counts[k], counts[0]);
  place.nodes = static_cast<int>(counts.size());
  place.per_node = counts[0];
  for (int node = 0; node < place.nodes; ++node)
    for (int r = 0; r < world.size(); ++r)
      if (node_of[static_cast<std::size_t>(r)] == node) place.ranks.push_back(r);
  return place;
}

}  // namespace

Nodes make_nodes(Transport& world, int ranks_per_node) {
  const bool flat = ranks_per_node == kFlat || world.size() == 1;
  const Place place = flat                           ? place_by_number(world, 1)
                      : ranks_per_node == kAutoNodes ? place_by_host(world)
                                                     : place_by_number(world, ranks_per_node);
  Nodes nodes{.world = &world,
              .inside = nullptr,
              .across = nullptr,
              .nodes = place.nodes,
              .per_node = place.per_node,
              .node = place.node,
              .local = place.local,
              .ranks = {}};
  if (place.per_node == 1) return nodes;
  nodes.ranks = place.ranks;
  nodes.inside = world.split(place.node);
  nodes.across = world.split(place.local);
  return nodes;
}

Buffer<std::byte> SpareMemory::take(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  auto best = spare_.end();
  for (auto one = spare_.begin(); one != spare_.end(); ++one)
    if (one->size() >= bytes && (best == spare_.end() || one->size() < best->size())) best = one;
  if (best == spare_.end()) return Buffer<std::byte>(bytes);
  Buffer<std::byte> memory = std::move(*best);
  *best = std::move(spare_.back());
  spare_.pop_back();
  return memory;
}

void SpareMemory::give(Buffer<std::byte> memory) {
  if (memory.empty()) return;
  std::lock_guard lock(mutex_);
  spare_.push_back(std::move(memory));
}

}  // namespace laconic::inline transport
