#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "laconic/transport/transport.h"

namespace laconic::inline transport {

// The ranks of one process: element r is for the thread that plays rank r. Blocks are views of the
// sender's memory, so nothing is copied. A Transport destroyed before the others are done counts as
// a rank that left: whoever waits for it gets Error(kTimeout) at once. REQUIRES: ranks >= 1 (throws
// otherwise).
std::vector<std::unique_ptr<Transport>> make_threads(
    int ranks, std::chrono::milliseconds timeout = kDefaultTimeout);

// Calls `work` once for each rank, each on a thread of its own, and returns when all are done.
// Rethrows what a rank threw: the first, by rank, that does not merely miss another.
void run_threads(int ranks, const std::function<void(Transport&)>& work,
                 std::chrono::milliseconds timeout = kDefaultTimeout);

}  // namespace laconic::inline transport
