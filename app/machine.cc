#include "app/machine.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>

namespace laconic::app {

std::string machine() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, name = "unknown processor";
  while (std::getline(info, line))
    if (line.starts_with("model name")) {
      name = line.substr(line.find(':') + 2);
      break;
    }
  return fmt::format("{}, {} core(s)", name, cores());
}

int cores() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace laconic::app
