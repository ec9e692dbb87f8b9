// Four ranks as threads of one process: examples/threads
#include <laconic/transport/threads.h>

#include <thread>

#include "examples/logistic_regression.h"

int main() {
  auto ranks = laconic::make_threads(4);
  std::vector<std::jthread> threads;
  for (auto& rank : ranks) threads.emplace_back([&world = *rank] { train(world); });
}
