// Two ranks as threads of one process: examples/mnist_threads
#include <laconic/transport/threads.h>

#include <thread>

#include "examples/mnist/train.h"

int main() {
  auto ranks = laconic::make_threads(2);
  std::vector<std::jthread> threads;
  for (auto& rank : ranks) threads.emplace_back([&world = *rank] { train(world); });
}
