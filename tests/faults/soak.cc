// Very many steps of a small model. After each block of steps rank 0 prints a JSON object: steps so
// far, the median of their times in milliseconds, and every rank's resident bytes. Replicas are
// compared every 100 steps; ends with 1 if they differ.
//
//   soak RANKS STEPS ELEMENTS [METHOD]       ranks are threads
//   mpirun -n RANKS soak_mpi RANKS STEPS ELEMENTS [METHOD]
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include "laconic/core/error.h"
#include "laconic/optim/optimizer.h"
#include "laconic/transport/threads.h"

#ifdef SOAK_MPI
#include <mpi.h>

#include "laconic/transport/mpi.h"
#endif

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kVerifyEvery = 100;
constexpr std::int64_t kBlock = 500;  // steps that are reported together

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  file >> pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

float median(std::vector<float>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Soak {
  std::int64_t steps;
  std::size_t elements;
  std::string method;

  laconic::OptimizerConfig config() const {
    laconic::OptimizerConfig config{.algorithm = method,
                                    .total_steps = steps,
                                    .bucket_elements = elements / 3 + 1,
                                    .verify_every = kVerifyEvery};
    config.freeze_step = std::max<std::int64_t>(1, steps / 20);  // later steps are all of a kind
    // Of methods with local steps: an exchange is under way in every step, of one part or another.
    config.every = 4;
    config.fragments = 2;
    config.delay = 2;
    config.codec = laconic::GradientCodec::kInt4;
    return config;
  }

  void run(laconic::Transport& world) const {
    std::vector<float> weights(elements), gradient(elements), seconds;
    seconds.reserve(kBlock);
    const auto optimizer = laconic::make_optimizer(
        config(), {.weights = weights, .gradient = gradient, .groups = {}, .ranges = {}}, world);
    auto random = static_cast<std::uint32_t>(world.rank() + 1);
    for (std::int64_t t = 0; t < steps; ++t) {
      for (std::size_t k = 0; k < elements; ++k) {
        random = random * 1664525 + 1013904223;
        const auto noise = static_cast<float>(static_cast<std::int32_t>(random)) * 1e-9F;
        gradient[k] = weights[k] - static_cast<float>(k % 7) + noise;
      }
      const auto began = Clock::now();
      optimizer->step(1e-3);
      seconds.push_back(std::chrono::duration<float>(Clock::now() - began).count());
      if ((t + 1) % kBlock == 0) {
        report(world, t + 1, median(seconds));
        seconds.clear();
      }
    }
  }

  static void report(laconic::Transport& world, std::int64_t step, float seconds) {
    const std::vector<std::int64_t> resident = world.gather(resident_bytes());
    if (world.rank() != 0) return;
    fmt::print("{{\"step\": {}, \"ms\": {:.4f}, \"resident\": [{}]}}\n", step, seconds * 1e3,
               fmt::join(resident, ", "));
    std::fflush(stdout);
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
  if (count != 4 && count != 5)
    return fmt::print(stderr, "soak RANKS STEPS ELEMENTS [METHOD]\n"), 2;
  try {
    start(std::atoi(words[1]),
          {std::atoll(words[2]), static_cast<std::size_t>(std::atoll(words[3])),
           count == 5 ? words[4] : "one-bit-adam"});
  } catch (const std::exception& error) {
    fmt::print(stderr, "soak: {}\n", error.what());
    return 1;
  }
#ifdef SOAK_MPI
  MPI_Finalize();
#endif
  return 0;
}
