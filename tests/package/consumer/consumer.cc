#include <laconic/transport/threads.h>

#include <cstdio>
#include <thread>

#include "gather.h"

int main() {
  try {
    laconic::make_threads(0);
    return 1;
  } catch (const laconic::Error& error) {
    if (error.code() != laconic::Code::kInvalidArgument) return 1;
  }
  auto ranks = laconic::make_threads(2);
  std::jthread other([&] { gather_hashes(*ranks[1]); });
  gather_hashes(*ranks[0]);
  std::puts("consumer: 2 threads agree");
}
