#include "app/mpi.h"

#include <mpi.h>

#include <cstdlib>

#include "laconic/core/error.h"
#include "laconic/transport/mpi.h"

namespace laconic::app {

bool under_mpirun() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr;
}

MpiSession::MpiSession(std::chrono::milliseconds timeout) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  world_ = make_mpi(MPI_COMM_WORLD, {.timeout = timeout});
}

MpiSession::~MpiSession() {
  world_.reset();
  MPI_Finalize();
}

Transport& MpiSession::world() { return *world_; }

void MpiSession::all_reduce(std::span<float> values) {
  constexpr std::size_t kMost = std::size_t{1} << 30;
  for (std::size_t at = 0; at < values.size(); at += kMost) {
    const auto part = values.subspan(at, std::min(kMost, values.size() - at));
    MPI_Allreduce(MPI_IN_PLACE, part.data(), static_cast<int>(part.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  }
}

void MpiSession::abort(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::abort();
}

}  // namespace laconic::app
