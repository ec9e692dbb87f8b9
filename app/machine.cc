#include "app/machine.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace laconic::app {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The value of the first line "name : value".
std::string field(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t at = line.find(':');
    if (at == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", at + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

std::vector<std::string> entries(const char* folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Interfaces with a route, and whether one of them is the default.
std::map<std::string, bool> routes() {
  std::map<std::string, bool> found;
  std::ifstream file("/proc/net/route");
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name, destination;
    words >> name >> destination;
    found[name] |= destination == "00000000";
  }
  return found;
}

}  // namespace

std::string processor() {
  const std::string name = field("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown processor" : name;
}

std::string machine() { return fmt::format("{}, {} core(s)", processor(), cores()); }

int cores() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

std::vector<std::string> processor_features() {
  std::string flags = field("/proc/cpuinfo", "flags");
  if (flags.empty()) flags = field("/proc/cpuinfo", "Features");
  std::istringstream words(flags);
  std::vector<std::string> features;
  for (std::string word; words >> word;)
    for (const char* known : {"sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512_bf16",
                              "amx_bf16", "asimd", "sve", "sve2", "bf16"})
      if (word == known) features.push_back(word);
  return features;
}

double memory_bytes() {
  std::istringstream words(field("/proc/meminfo", "MemTotal"));
  double kilobytes = 0;
  words >> kilobytes;
  return 1024 * kilobytes;
}

std::vector<Interface> interfaces() {
  const auto routed = routes();
  std::vector<Interface> all;
  for (const std::string& name : entries("/sys/class/net")) {
    const fs::path folder = fs::path("/sys/class/net") / name;
    if (!fs::exists(folder / "type")) continue;
    constexpr const char* kLoopback = "772";
    Interface one{.name = name, .loopback = first_line(folder / "type") == kLoopback};
    one.up = first_line(folder / "operstate") == "up" || one.loopback;
    const auto route = routed.find(name);
    one.routed = route != routed.end();
    one.default_route = one.routed && route->second;
    std::istringstream speed(first_line(folder / "speed"));
    double mbit = 0;
    if (speed >> mbit && mbit > 0) one.bits_per_second = 1e6 * mbit;
    all.push_back(one);
  }
  return all;
}

std::vector<std::string> infiniband() {
  std::vector<std::string> all;
  for (const std::string& name : entries("/sys/class/infiniband")) {
    const std::string rate =
        first_line(fs::path("/sys/class/infiniband") / name / "ports" / "1" / "rate");
    all.push_back(rate.empty() ? name : fmt::format("{}, {}", name, rate));
  }
  return all;
}

const Interface* best_interface(const std::vector<Interface>& all) {
  const Interface* best = nullptr;
  for (const Interface& one : all) {
    if (!one.up || one.loopback || !one.routed) continue;
    if (best == nullptr || one.bits_per_second > best->bits_per_second ||
        (one.bits_per_second == best->bits_per_second && one.default_route && !best->default_route))
      best = &one;
  }
  return best;
}

}  // namespace laconic::app
