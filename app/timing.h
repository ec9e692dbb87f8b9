#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace laconic::app {

template <typename Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The middle of several runs and how far they lie apart.
struct Sample {
  double median = 0, least = 0, most = 0;

  explicit Sample(std::vector<double> values) {
    if (values.empty()) return;
    std::sort(values.begin(), values.end());
    median = values[values.size() / 2];
    least = values.front();
    most = values.back();
  }
};

}  // namespace laconic::app
