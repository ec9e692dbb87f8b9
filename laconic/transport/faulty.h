#pragma once

#include <functional>
#include <memory>

#include "laconic/transport/transport.h"

namespace laconic::inline transport {

// What goes wrong, for tests. Exchanges are counted from 0 as they are posted here, splits
// included.
struct Faults {
  std::int64_t die_at = -1;  // post throws Error(kTransport) from this exchange on
  std::function<void(std::int64_t exchange)> before_post;  // e.g. a place to wait
  // May change the bytes that arrived from `rank`.
  std::function<void(std::int64_t exchange, int rank, std::span<std::byte> block)> on_arrival;
};

std::unique_ptr<Transport> make_faulty(Transport& inner, Faults faults);

}  // namespace laconic::inline transport
