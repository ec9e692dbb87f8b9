#pragma once

#include <string>
#include <vector>

#include "laconic/plan/cost.h"
#include "laconic/transport/transport.h"

// What this machine and its links can do, measured.
namespace laconic::app::plan {

// One thread, on memory beyond the caches; about a second. Under mpirun call it on all ranks at
// once, since they share the memory.
laconic::plan::Speeds measure_speeds();

// Bytes a second of one thread that reads, and of one that reads and writes.
struct MemorySpeed {
  double read, update;
};
MemorySpeed measure_memory();

// Elements per second that so many threads encode together, each on memory of its own.
double measure_encoding(int threads);

// The hosts of a group, in the order of their first ranks. Collective.
struct Host {
  std::string name;
  std::vector<int> ranks;
};
std::vector<Host> hosts_of(Transport& world);

struct PairLink {
  int one, other;  // ranks
  Link link;       // both ways at once, each at this rate
};
// One pair after the other. Collective; the same result on all ranks.
std::vector<PairLink> measure_links(Transport& world,
                                    const std::vector<std::pair<int, int>>& pairs);

// Every pair of hosts, by their first ranks; of ranks where there is one host.
std::vector<std::pair<int, int>> pairs_of(const std::vector<Host>& hosts);

}  // namespace laconic::app::plan
