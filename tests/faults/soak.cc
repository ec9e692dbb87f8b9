// Very many steps of a small model, and what became of memory, time and the replicas, as one JSON
// object.
//
//   soak RANKS STEPS ELEMENTS        ranks are threads
//   mpirun -n RANKS soak_mpi RANKS STEPS ELEMENTS
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include "laconic/core/error.h"
#include "laconic/core/hash.h"
#include "laconic/optim/optimizer.h"
#include "laconic/transport/threads.h"

#ifdef SOAK_MPI
#include <mpi.h>

#include "laconic/transport/mpi.h"
#endif

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kVerifyEvery = 100;

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double median(std::span<float> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Soak {
  std::int64_t steps;
  std::size_t elements;

  void run(laconic::Transport& world) const {
    std::vector<float> weights(elements), gradient(elements);
    const auto optimizer = laconic::make_optimizer(
        {.algorithm = laconic::Algorithm::kOneBitAdam,
         .total_steps = steps,
         .freeze_step = std::max<std::int64_t>(1, steps / 20),  // later steps are all of a kind
         .bucket_elements = elements / 3 + 1,
         .verify_every = kVerifyEvery},
        {.weights = weights, .gradient = gradient, .groups = {}, .ranges = {}}, world);
    const std::int64_t tenth = std::max<std::int64_t>(1, steps / 10);
    std::vector<float> seconds(static_cast<std::size_t>(steps));
    double resident = 0, largest = 0;
    auto random = static_cast<std::uint32_t>(world.rank() + 1);
    for (std::int64_t t = 0; t < steps; ++t) {
      for (std::size_t k = 0; k < elements; ++k) {
        random = random * 1664525 + 1013904223;
        const auto noise = static_cast<float>(static_cast<std::int32_t>(random)) * 1e-9F;
        gradient[k] = weights[k] - static_cast<float>(k % 7) + noise;
      }
      const auto began = Clock::now();
      optimizer->step(1e-3);
      seconds[static_cast<std::size_t>(t)] =
          std::chrono::duration<float>(Clock::now() - began).count();
      if (t + 1 == tenth) resident = resident_bytes();
      if (t >= tenth && t % 1000 == 0) largest = std::max(largest, resident_bytes());
    }
    report(world, weights, seconds, resident, std::max(largest, resident_bytes()));
  }

  // Gathers the largest growth of all ranks; rank 0 prints.
  void report(laconic::Transport& world, std::span<const float> weights, std::span<float> seconds,
              double resident, double largest) const {
    struct Said {
      double growth;
      std::uint64_t hash;
    };
    const Said mine{largest / resident - 1, laconic::hash64(std::as_bytes(weights))};
    const std::vector<Said> all = world.gather(mine);
    double growth = 0;
    for (const Said& one : all) {
      if (one.hash != all[0].hash)
        laconic::fail(laconic::Code::kMismatch, "weights differ after {} steps", steps);
      growth = std::max(growth, one.growth);
    }
    if (world.rank() != 0) return;
    const std::size_t tenth = seconds.size() / 10;
    const double early = median(seconds.subspan(tenth, tenth)), late = median(seconds.last(tenth));
    fmt::print(
        R"({{"ranks": {}, "steps": {}, "elements": {}, "replica_checks": {}, "drift": 0, "rss_mib": {:.1f}, )"
        R"("rss_growth_percent": {:.2f}, "step_ms_second_tenth": {:.4f}, "step_ms_last_tenth": {:.4f}, )"
        R"("slower_percent": {:.2f}}})"
        "\n",
        world.size(), steps, elements, steps / kVerifyEvery, resident / (1 << 20), growth * 100,
        early * 1e3, late * 1e3, (late / early - 1) * 100);
  }
};

void start(int ranks, const Soak& soak) {
#ifdef SOAK_MPI
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  const auto world = laconic::make_mpi(MPI_COMM_WORLD);
  if (world->size() != ranks) MPI_Abort(MPI_COMM_WORLD, 2);
  soak.run(*world);
#else
  laconic::run_threads(ranks, [&](laconic::Transport& world) { soak.run(world); });
#endif
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) return fmt::print(stderr, "soak RANKS STEPS ELEMENTS\n"), 2;
  try {
    start(std::atoi(words[1]),
          {std::atoll(words[2]), static_cast<std::size_t>(std::atoll(words[3]))});
  } catch (const std::exception& error) {
    fmt::print(stderr, "soak: {}\n", error.what());
    return 1;
  }
#ifdef SOAK_MPI
  MPI_Finalize();
#endif
  return 0;
}
