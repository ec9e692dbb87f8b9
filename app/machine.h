#pragma once

#include <string>

namespace laconic::app {

// For records: the processor's name and the cores that this process may use.
std::string machine();

// Cores that this process may use, at least 1.
int cores() noexcept;

}  // namespace laconic::app
