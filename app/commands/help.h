#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace laconic::app::commands {

// Help with examples first, then options by group. For commands that are added afterwards.
void set_help_format(CLI::App& app);

// What is wrong with the command line, with the nearest name for one that does not exist.
// REQUIRES: `app` threw `error`.
std::string explained(const CLI::App& app, const CLI::ParseError& error, int argc,
                      const char* const* argv);

}  // namespace laconic::app::commands
