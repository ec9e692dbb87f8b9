#pragma once

#include <vector>

#include "laconic/optim/optimizer.h"

namespace laconic::inline optim {

// A bucket's place in the model. It never crosses a group, nor a fragment.
struct Cut {
  std::size_t group = 0;
  int fragment = 0;
  std::size_t begin = 0, count = 0;
};

// All buckets in order, of at most `elements`. Fragment f of F of a group of P elements begins at
// ceil(P*f/F), rounded up to 64. REQUIRES: `model` is completed.
std::vector<Cut> cuts_of(const Model& model, int fragments, std::size_t elements);

}  // namespace laconic::inline optim
