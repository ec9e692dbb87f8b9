#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>

// MPI's communicators.
namespace laconic::inline transport::mpi {

// Error(kTransport) with MPI's own words unless `code` is MPI_SUCCESS.
void check(int code, const char* call);

// Error(kTransport) unless MPI is there and may be called by any thread, one at a time.
void check_environment();

// Collective. Error(kTimeout) when a rank does not take part in time.
MPI_Comm duplicate(MPI_Comm comm, std::chrono::milliseconds timeout);

// Collective, and without a deadline, which MPI does not know: call these when every rank is known
// to take part.
MPI_Comm split(MPI_Comm comm, int color, int rank);
// The smallest rank of those that share memory with this one.
std::uint64_t find_host(MPI_Comm comm);

}  // namespace laconic::inline transport::mpi
