#include "laconic/transport/mpi_communicator.h"

#include <array>

#include "laconic/core/error.h"
#include "laconic/transport/engine.h"

namespace laconic::inline transport::mpi {
void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail(Code::kTransport, "{} failed: {}", call,
       std::string_view(text.data(), static_cast<std::size_t>(length)));
}

void check_environment() {
  int initialized = 0, finalized = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (!initialized || finalized)
    fail(Code::kTransport,
         "MPI is {}: call MPI_Init_thread with MPI_THREAD_SERIALIZED or higher before make_mpi",
         initialized ? "finalized" : "not initialised");
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level < MPI_THREAD_SERIALIZED)
    fail(Code::kTransport,
         "MPI was initialised with thread level {}, {} (MPI_THREAD_SERIALIZED) is needed: call "
         "MPI_Init_thread with "
         "MPI_THREAD_SERIALIZED or higher",
         level, int{MPI_THREAD_SERIALIZED});
}

MPI_Comm duplicate(MPI_Comm comm, std::chrono::milliseconds timeout) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Comm_idup(comm, &copy, &request), "MPI_Comm_idup");
  const std::size_t no_progress = 0;
  const auto done = [&] {
    int flag = 0;
    check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Comm_idup");
    return flag != 0;
  };
  if (!poll(done, no_progress, timeout))
    fail(Code::kTimeout, "a rank did not call make_mpi within {} ms: see whether all of them live",
         timeout.count());
  return copy;
}

MPI_Comm split(MPI_Comm comm, int color, int rank) {
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split(comm, color, rank, &part), "MPI_Comm_split");
  return part;
}

std::uint64_t find_host(MPI_Comm comm) {
  int rank = 0, smallest = 0;
  MPI_Comm domain = MPI_COMM_NULL;
  check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &domain),
        "MPI_Comm_split_type");
  check(MPI_Allreduce(&rank, &smallest, 1, MPI_INT, MPI_MIN, domain), "MPI_Allreduce");
  MPI_Comm_free(&domain);
  return static_cast<std::uint64_t>(smallest);
}

}  // namespace laconic::inline transport::mpi
