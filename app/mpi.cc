#include "app/mpi.h"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>

#include "app/failure.h"
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

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string whole(text, static_cast<std::size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));
}

void run_under_mpi(FunctionRef<void(MpiSession&)> work) {
  MpiSession mpi;
  try {
    work(mpi);
  } catch (...) {  // others may be waiting for this rank
    mpi.abort(report_failure(mpi.world().rank()));
  }
}

}  // namespace laconic::app
