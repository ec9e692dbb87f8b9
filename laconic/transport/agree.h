#pragma once

#include <span>
#include <string>
#include <string_view>

#include "laconic/transport/transport.h"

namespace laconic::inline transport {

// Collective: compares what each rank was asked for, one line per thing, with the value in it.
// Throws Error(kInvalidArgument), the same on every rank, with the first line in which a rank
// differs from rank 0: "rank 3 has 1024 weights, rank 0 has 1088 weights: <remedy>".
void agree(Transport& world, std::span<const std::string> mine, std::string_view remedy);

}  // namespace laconic::inline transport
