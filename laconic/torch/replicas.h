#pragma once

#include <span>
#include <string>
#include <vector>

#include "laconic/torch/arena.h"
#include "laconic/transport/transport.h"

namespace laconic::torch {

// "parameter conv.weight, Float [8, 1, 3, 3]": what must be equal on all ranks.
std::string describe(const char* what, const NamedTensor& one);

// All of these are collective.

// Dense tensors become rank 0's, in one exchange. Those of a GPU go through memory of the host.
void broadcast(Transport& world, std::span<const NamedTensor> tensors);
// Floating-point tensors become their mean, added in double in the order of ranks, others rank 0's;
// the same bits everywhere, in one exchange.
void average(Transport& world, std::span<const NamedTensor> tensors);

}  // namespace laconic::torch
