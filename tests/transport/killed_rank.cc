// A program for mpirun: its last rank kills itself, every other says what it was told. With the
// word "split" that is in the middle of a split, when it has sent its color. Needs a launcher that
// lets the survivors live (Open MPI: --enable-recovery), and its output is the result: gtest and
// MPI_Finalize want all ranks.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <vector>

#include "laconic/core/error.h"
#include "laconic/transport/mpi.h"

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  auto transport = laconic::make_mpi(MPI_COMM_WORLD, {.timeout = std::chrono::seconds(2)});
  std::vector<std::byte> in(100000), out(in.size() * static_cast<std::size_t>(transport->size()));
  transport->all_gather(in, out);
  const bool splits = argc > 1;
  if (transport->rank() == transport->size() - 1) {
    if (splits) transport->gather(0);
    std::raise(SIGKILL);
  }
  int result = 1;
  try {
    if (splits)
      transport->split(0);
    else
      transport->all_gather(in, out);
  } catch (const laconic::Error& error) {
    std::printf("rank %d was told (%s): %s\n", transport->rank(), name(error.code()), error.what());
    result = error.code() == laconic::Code::kTimeout ? 0 : 1;
  }
  transport.reset();  // must not wait for the dead
  std::fflush(stdout);
  _exit(result);
}
