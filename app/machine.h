#pragma once

#include <string>
#include <vector>

// What the operating system reports about this machine.
namespace laconic::app {

// For records: the processor's name and the cores that this process may use.
std::string machine();

std::string processor();
// Of those that matter here.
std::vector<std::string> processor_features();

// Cores that this process may use, at least 1.
int cores() noexcept;

double memory_bytes();  // 0: unknown

struct Interface {
  std::string name;
  bool up = false, loopback = false, routed = false, default_route = false;
  double bits_per_second = 0;  // 0: unknown
};
// Network devices with the InfiniBand ones among them, by name.
std::vector<Interface> interfaces();
std::vector<std::string> infiniband();

// The fastest that is up, has a route and is no loopback; among equals the one of the default
// route. Null when there is none.
const Interface* best_interface(const std::vector<Interface>& all);

}  // namespace laconic::app
