// sample FOLDER: saves the checkpoints of a fake optimizer on 2 ranks, for read_test.py.
#include <cstdio>
#include <thread>

#include "laconic/transport/threads.h"
#include "tests/checkpoint/fake_optimizer.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: sample FOLDER\n", stderr), 2;
  auto transports = laconic::make_threads(2);
  std::vector<std::jthread> threads;
  for (auto& transport : transports)
    threads.emplace_back([&world = *transport, folder = argv[1]] {
      laconic::testing::FakeOptimizer optimizer(world);
      optimizer.fill(10, true);
      laconic::save_checkpoint(folder, optimizer, {{"position", "7"}});
    });
}
