#pragma once

#include <string>
#include <vector>

#include "app/training/run_config.h"

namespace CLI {
class App;
}

namespace laconic::app::commands {

// The options that train and compare have in common, as assignments: those of --config first, then
// options, then --set.
struct RunOptions {
  std::string config;
  std::vector<training::Assignment> options;
  std::vector<std::string> set;

  std::vector<training::Assignment> assignments() const;
};

// The options write into `options`, which must outlive the parsing.
void add_run_options(CLI::App& command, RunOptions& options);

}  // namespace laconic::app::commands
