#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "laconic/core/parallel.h"
#include "laconic/kernels/plain.h"

namespace CLI {
class App;
}

namespace laconic::app::commands {

// The option --target of `command`.
void add_target(CLI::App& command, std::string& target);

// Kernels run on this instruction set from now on: as CPUs name it (avx512) or as Highway does
// (AVX3), in any case; empty: on the best. Throws Error(kInvalidArgument) where the CPU has it not.
void run_on(const std::string& target);

// A table of work against the plain loop that moves the same memory, both timed in turns; printed
// row by row, or as one JSON array when this object goes.
class Rows {
 public:
  Rows(std::size_t elements, int repeats, bool json);
  ~Rows();

  // `limit` is "streaming" (memory bounds it) or "compute". Work that sweeps over memory several
  // times has one Traffic a sweep.
  void measure(const char* name, const char* limit, const std::vector<kernels::Traffic>& sweeps,
               FunctionRef<void()> work);

 private:
  std::size_t elements_;
  int repeats_;
  bool json_;
  std::unique_ptr<nlohmann::json> rows_;
};

}  // namespace laconic::app::commands
