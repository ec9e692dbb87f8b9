#include <gtest/gtest.h>

#include <cstdlib>

#include "laconic/transport/mpi.h"
#include "tests/support/failure_printer.h"
#include "tests/support/ranks.h"

namespace {

bool started_by_launcher() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr;
}

int run_under_launcher(int argc, char** argv) {
  int level = 0, rank = 0, size = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  laconic::use_processes(size, [](const laconic::RunOptions& options) {
    return laconic::make_mpi(
        MPI_COMM_WORLD, {.timeout = options.timeout, .largest_message = options.largest_message});
  });
  testing::InitGoogleTest(&argc, argv);
  if (rank != 0) laconic::FailurePrinter::install(rank);
  int failed = RUN_ALL_TESTS();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  if (started_by_launcher()) return run_under_launcher(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
