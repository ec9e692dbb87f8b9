#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "laconic/core/buffer.h"
#include "laconic/kernels/plain.h"

// What a rank does for its own parameters, before and after an exchange, as the optimizers do it,
// without other ranks.
namespace laconic::app {

struct Arrays {
  explicit Arrays(std::size_t elements);
  std::size_t size() const noexcept { return g.size(); }

  Buffer<float> g, x, m, v, e;  // gradient, weights, moments, residual
  Buffer<float> scales;         // one per block
  Buffer<std::uint8_t> bits;    // at most 4 per element
};

struct Sweep {
  const char* name;
  void (*run)(Arrays&);
  // The least memory that it must move; several where all of one pass must be known for the next.
  std::vector<kernels::Traffic> (*traffic)(Arrays&);
};
// Methods name theirs (Method::sweeps); null for an empty name. Throws Error(kInvalidArgument) for
// an unknown one.
const Sweep* sweep_named(std::string_view name);

}  // namespace laconic::app
