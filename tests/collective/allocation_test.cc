#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "laconic/core/buffer.h"
#include "laconic/device/host.h"
#include "tests/support/means.h"

// A program of its own, because it counts what every thread of it allocates.
namespace {

std::atomic<std::uint64_t> allocations{0};

void* counted(std::size_t alignment, std::size_t bytes) {
  allocations.fetch_add(1);
  void* memory = memalign(alignment, bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Inlined at -O1, g++ sees `free` meet its own `new` and not that both are replaced here.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t bytes) { return counted(16, bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(static_cast<std::size_t>(alignment), bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  allocations.fetch_add(1);
  return memalign(alignment, bytes);
}

namespace laconic::testing {
namespace {

class Allocation : public MeanTest {};

// All ranks are here; nothing is allocated on the way.
void meet(Transport& world) {
  const std::byte mine[1] = {};
  std::byte all[4];
  world.all_gather(mine, std::span(all).first(static_cast<std::size_t>(world.size())));
}

TEST_P(Allocation, IsCounted) {
  const auto before = allocations.load();
  const Buffer<float> buffer(100);
  const std::vector<float> vector(100);
  EXPECT_GE(allocations.load(), before + 2);
}

TEST_P(Allocation, ASteadyReduceDoesNone) {
  run([](Transport& world, const Nodes& nodes) {
    for (const std::size_t elements : {20011, 600001}) {
      HostDevice device(2);
      const auto mean = make_mean(setting().config(elements), nodes, device);
      auto values = values_of(world.rank(), 0, elements);
      for (int warm_up = 0; warm_up < 2; ++warm_up) mean->reduce(values);
      meet(world);
      const std::uint64_t before = allocations.load();
      meet(world);
      for (int exchange = 0; exchange < 5; ++exchange) mean->reduce(values);
      meet(world);
      const std::uint64_t after = allocations.load();
      meet(world);
      EXPECT_EQ(after - before, 0) << elements << " elements";
    }
  });
}

// Two ranks, flat and as one node; four for a hierarchy that codes.
std::vector<Setting> few_settings() {
  auto all = settings(all_sorts());
  std::erase_if(all, [](const Setting& setting) {
    return setting.ranks != 2 && !(setting.ranks == 4 && setting.per_node == 2);
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Allocation, ::testing::ValuesIn(few_settings()), name_of);

}  // namespace
}  // namespace laconic::testing
