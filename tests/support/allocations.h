#pragma once

#include <cstdint>

namespace laconic {

// How often this thread has called operator new. A program that links allocations.cc counts; others
// do not link.
std::uint64_t allocations() noexcept;
// Of this process.
std::uint64_t allocations_of_all_threads() noexcept;

}  // namespace laconic
