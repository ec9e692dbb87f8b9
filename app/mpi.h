#pragma once

#include <memory>
#include <span>
#include <string>

#include "laconic/core/parallel.h"
#include "laconic/transport/transport.h"

namespace laconic::app {

// Whether a launcher such as mpirun started this process as one of several.
bool under_mpirun();

// MPI for the life of this object. Throws Error(kUnavailable), naming the build option, where the
// command was built without it.
class MpiSession {
 public:
  explicit MpiSession(std::chrono::milliseconds timeout = kDefaultTimeout);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  Transport& world();
  // The library's own all-reduce (sum, fp32, in place), to compare with.
  void all_reduce(std::span<float> values);
  // Ends all ranks: others may be waiting for this one.
  [[noreturn]] void abort(int code);

 private:
  std::unique_ptr<Transport> world_;
};

// The library that was linked, e.g. "Open MPI v4.1.4"; without one, how to get it.
std::string mpi_version();

// Runs `work` as one of the launcher's ranks. An error of one rank ends all of them.
void run_under_mpi(FunctionRef<void(MpiSession&)> work);

}  // namespace laconic::app
