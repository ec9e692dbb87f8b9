#include "app/mpi.h"
#include "laconic/core/error.h"

namespace laconic::app {

bool under_mpirun() { return false; }

MpiSession::MpiSession(std::chrono::milliseconds) {
  fail(
      Code::kUnavailable,
      "this laconic was built without MPI: build it with -DLACONIC_WITH_MPI=ON (and libopenmpi-dev "
      "or libmpich-dev installed), or use --transport threads");
}
MpiSession::~MpiSession() = default;
Transport& MpiSession::world() { return *world_; }
void MpiSession::all_reduce(std::span<float>) {}
void MpiSession::abort(int code) { std::exit(code); }

}  // namespace laconic::app
