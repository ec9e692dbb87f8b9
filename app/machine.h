#pragma once

#include <string>
#include <vector>

// What the operating system tells of this machine.
namespace laconic::app {

struct Cpu {
  std::string model;
  int cores = 0;                      // that this process may use
  std::vector<std::string> features;  // of those that matter here
};
Cpu read_cpu();

double read_memory_bytes();  // 0: unknown

struct Interface {
  std::string name;
  bool up = false, loopback = false, routed = false, default_route = false;
  double bits_per_second = 0;  // 0: unknown
};
// Network devices with the InfiniBand ones among them, by name.
std::vector<Interface> read_interfaces();
std::vector<std::string> read_infiniband();

// The fastest that is up, has a route and is no loopback; among equals the one of the default
// route. Null when there is none.
const Interface* best_interface(const std::vector<Interface>& all);

}  // namespace laconic::app
