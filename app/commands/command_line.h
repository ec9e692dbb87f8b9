#pragma once

#include <string>

namespace laconic::app {

// This process's command line as one could type it again.
std::string command_line();

}  // namespace laconic::app
