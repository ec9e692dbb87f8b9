#pragma once

#include <string>
#include <vector>

namespace laconic::kernels {

// The instruction set that the kernels run on, chosen once by what the CPU has ("AVX3", "AVX2",
// "SSE4", …).
std::string target();

// Every instruction set that was compiled and that this CPU has, best first.
std::vector<std::string> targets();

// For tests and benchmarks: run on this one from now on ("" restores the best). Throws
// Error(kInvalidArgument). Not thread-safe.
void set_target(const std::string& name);

}  // namespace laconic::kernels
