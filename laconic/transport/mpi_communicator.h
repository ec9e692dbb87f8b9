#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>

// MPI's communicators, made within a deadline, which MPI itself does not know: Error(kTimeout).
namespace laconic::mpi {

// Error(kTransport) with MPI's own words unless `code` is MPI_SUCCESS.
void check(int code, const char* call);

// Error(kTransport) unless MPI is there and may be called by any thread, one at a time.
void check_environment();

// Collective.
MPI_Comm duplicate(MPI_Comm comm, std::chrono::milliseconds timeout);
MPI_Comm split(MPI_Comm comm, int color, int rank, std::chrono::milliseconds timeout);
// The smallest rank of those that share memory with this one.
std::uint64_t find_host(MPI_Comm comm, std::chrono::milliseconds timeout);

}  // namespace laconic::mpi
