#pragma once

#include <cstdint>
#include <vector>

#include "laconic/core/parallel.h"
#include "laconic/transport/transport.h"

namespace laconic::inline transport {

// Collective: does `work` and returns what it returned on each rank when it succeeded on all.
// Otherwise every rank throws the same: the error of the first rank that failed, which it names.
// An exception that is no Error becomes one: kFile from the file system or a stream, kUnavailable
// when memory ran out, else kInternal.
std::vector<std::uint64_t> together(Transport& world, FunctionRef<std::uint64_t()> work);

}  // namespace laconic::inline transport
