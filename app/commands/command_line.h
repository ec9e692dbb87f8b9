#pragma once

#include <string>
#include <vector>

namespace laconic::app::commands {

// This process's arguments, its name first.
std::vector<std::string> arguments();

// This process's command line as one could type it again.
std::string command_line();

}  // namespace laconic::app::commands
