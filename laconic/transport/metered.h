#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "laconic/transport/transport.h"

namespace laconic::inline transport {

// What a rank sent. A round is one collective however many slices it took.
struct Traffic {
  struct Count {
    std::uint64_t rounds = 0, exchanges = 0;
    std::uint64_t bytes_inside = 0, bytes_between = 0;  // to ranks of the same node, to other nodes
    std::uint64_t bytes() const noexcept { return bytes_inside + bytes_between; }
  };
  std::array<Count, 3> of;  // indexed by Kind
  const Count& operator[](Kind kind) const noexcept { return of[static_cast<std::size_t>(kind)]; }
  Count total() const noexcept;
};

// Counts into `traffic` what passes through, splits included. `ranks_per_node` decides which peers are
// inside the node (0: every rank is a node of its own). The caller keeps `inner` and `traffic`
// alive; one thread at a time, as for any Transport.
std::unique_ptr<Transport> make_metered(Transport& inner, Traffic& traffic, int ranks_per_node = 0);

}  // namespace laconic::inline transport
