#pragma once

#include <mpi.h>

#include "laconic/transport/transport.h"

namespace laconic::inline transport {

struct MpiConfig {
  std::chrono::milliseconds timeout = kDefaultTimeout;
  std::size_t largest_message = std::size_t{1}
                                << 30;  // longer ones are sent in pieces: MPI counts are 32-bit
};

// The ranks of an MPI communicator (duplicated, so the caller's messages cannot interleave).
// Collective over `comm`. Throws Error(kTransport) unless MPI was initialised with at least
// MPI_THREAD_SERIALIZED. host() is equal for ranks of one shared-memory domain. Must be destroyed
// before MPI_Finalize.
std::unique_ptr<Transport> make_mpi(MPI_Comm comm, const MpiConfig& config = {});

}  // namespace laconic::inline transport
