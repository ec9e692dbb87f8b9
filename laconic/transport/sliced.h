#pragma once

#include <memory>

#include "laconic/transport/transport.h"

namespace laconic::inline transport {

// `inner`, whose long messages are best cut into at most so many slices: few, where latency is long
// and coding need not overlap with sending. The caller keeps `inner` alive. Equal on all ranks.
std::unique_ptr<Transport> make_sliced(Transport& inner, int most);

}  // namespace laconic::inline transport
