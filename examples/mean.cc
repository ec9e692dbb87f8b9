// Mean alone, without an optimizer: the mean of a vector over four ranks, one bit per element.
#include <laconic/collective/mean.h>
#include <laconic/transport/nodes.h>
#include <laconic/transport/threads.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

// One rank's part; with laconic/transport/mpi.h it would be a process of mpirun's.
void average(laconic::Transport& world) {
  constexpr std::size_t kElements = 1 << 16;
  constexpr int kRounds = 200;
  const auto device = laconic::make_host_device(1);
  const laconic::Nodes nodes = laconic::make_nodes(world, laconic::kFlat);
  const auto mean = laconic::make_mean({.codec = "sign", .elements = kElements}, nodes, *device);

  // One bit is a rough message, but what it leaves out is added to the next one: the sum of what
  // comes back follows the sum of the exact means.
  std::vector<float> values(kElements), sum(kElements);
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kElements; ++i)
      values[i] = std::sin(static_cast<float>(i)) + static_cast<float>(world.rank());
    mean->reduce(values);  // in place; the same bits on every rank
    for (std::size_t i = 0; i < kElements; ++i) sum[i] += values[i] / kRounds;
  }
  if (world.rank() != 0) return;
  double worst = 0;
  for (std::size_t i = 0; i < kElements; ++i) {
    const double exact = std::sin(static_cast<float>(i)) + (world.size() - 1) / 2.0;
    worst = std::max(worst, std::abs(sum[i] - exact));
  }
  std::printf("%s: at most %.3f from the exact mean after %d rounds\n", mean->describe().c_str(),
              worst, kRounds);
}

}  // namespace

int main() { laconic::run_threads(4, average); }
