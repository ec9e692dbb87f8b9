#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "laconic/transport/transport.h"

namespace laconic {

struct RunOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(1);
  std::size_t largest_message = std::size_t{1} << 30;  // for engines that cut messages into pieces
};

// Calls fn once on each of n ranks: threads of this process, or the processes of the launcher that
// started it (then n must be their number). Rethrows what a rank threw: the first that does not
// merely miss another, by rank.
void run_ranks(int n, const std::function<void(Transport&)>& fn, const RunOptions& options = {});

// The numbers of ranks to test with: 1, 2, 3, 4, 8, or the launcher's.
std::vector<int> rank_counts();

// True when run_ranks starts threads, so that ranks share memory.
bool ranks_are_threads();

// Where the engine under test does less than Transport promises.
struct EngineLimits {
  bool allocates = false;       // in every exchange
  bool trusts_lengths = false;  // does not find ranks that post different messages
};
const EngineLimits& engine_limits();

// For the main of a program that a launcher started, before InitGoogleTest: `make` joins the group
// of all processes.
void use_processes(int size, std::function<std::unique_ptr<Transport>(const RunOptions&)> make,
                   const EngineLimits& limits = {});

}  // namespace laconic
