// A program for mpirun: its last rank kills itself between two exchanges that are far apart, every
// other prints what its next steps throw. Needs a launcher that lets the survivors live (Open MPI:
// --enable-recovery), and its output is the result: gtest and MPI_Finalize want all ranks.

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>
#include <vector>

#include "laconic/core/error.h"
#include "laconic/optim/optimizer.h"
#include "laconic/transport/mpi.h"

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  auto transport = laconic::make_mpi(MPI_COMM_WORLD, {.timeout = std::chrono::seconds(2)});
  std::vector<float> weights(1000), gradient(weights.size(), 1.0F);
  laconic::OptimizerConfig config;
  config.algorithm = "local-steps";
  config.every = 1'000'000;
  auto optimizer = laconic::make_optimizer(
      config, {.weights = weights, .gradient = gradient, .groups = {}, .ranges = {}}, *transport);
  for (int t = 0; t < 3; ++t) optimizer->step(0.01);
  if (transport->rank() == transport->size() - 1) std::raise(SIGKILL);
  int result = 1;
  try {
    for (int t = 0; t < 200; ++t) {
      optimizer->step(0.01);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  } catch (const laconic::Error& error) {
    std::printf("rank %d gets (%s): %s\n", transport->rank(), name(error.code()), error.what());
    result = error.code() == laconic::Code::kTimeout ? 0 : 1;
  }
  optimizer.reset();  // must not wait for the dead
  transport.reset();
  std::fflush(stdout);
  _exit(result);
}
