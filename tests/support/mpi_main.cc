#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "laconic/transport/mpi.h"
#include "tests/support/ranks.h"

namespace {

bool started_by_launcher() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr;
}

// Says only what fails: rank 0 prints the rest.
class FailurePrinter : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "[rank %d] %s:%d: %s\n", rank_,
                   result.file_name() ? result.file_name() : "?", result.line_number(),
                   result.message());
  }

 private:
  int rank_;
};

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
  if (rank != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(rank));
  }
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
