#include "app/mpi.h"
#include "laconic/core/error.h"

namespace laconic::app {

bool under_mpirun() { return false; }

std::string mpi_version() {
  return "built without MPI: build it with -DLACONIC_WITH_MPI=ON (and libopenmpi-dev or "
         "libmpich-dev installed)";
}

MpiSession::MpiSession(std::chrono::milliseconds) {
  fail(Code::kUnavailable, "this laconic was {}, or use --transport threads", mpi_version());
}
MpiSession::~MpiSession() = default;
Transport& MpiSession::world() { return *world_; }
void MpiSession::all_reduce(std::span<float>) {}
void MpiSession::abort(int code) { std::exit(code); }
void run_under_mpi(FunctionRef<void(MpiSession&)> work) {
  MpiSession mpi;
  work(mpi);
}

}  // namespace laconic::app
