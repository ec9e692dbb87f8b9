#pragma once

#include <string>
#include <vector>

namespace laconic::app::training {

// Runs this program with `arguments` (the first is its name) in a child process, and returns its
// exit code, 128 + n if signal n ended it. Where a signal that nobody sent to this process ended it,
// or a rank was lost (3), it is run again, at most `restarts` times, with `again` added. SIGINT and
// SIGTERM go on to the child; it gets SIGTERM when this process dies.
int run_with_restarts(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& again, int restarts);

}  // namespace laconic::app::training
