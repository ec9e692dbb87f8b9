#pragma once

#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <ucontext.h>
#define LACONIC_FIBERS_BY_UCONTEXT 1
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "laconic/device/cuda/kernels.h"

// Runs CUDA C++ on the CPU: every thread of a block is a fiber of the calling thread, and after every
// barrier and warp exchange the fibers go on in a new random order; in each block some warps are slow
// and go on when no other can. So no order that a kernel wrongly counts on lasts. Include it before the kernels' text. Not a GPU: one block at a time, no
// memory model; shared memory keeps what the block before left in it.
#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local
#define __launch_bounds__(threads)

namespace laconic::cuda::fibers {

struct Dimensions {
  unsigned x = 1, y = 1, z = 1;
};

// Where a fiber left off.
#ifdef LACONIC_FIBERS_BY_UCONTEXT
using Context = ucontext_t;
inline void switch_to(Context& from, Context& to) { swapcontext(&from, &to); }
inline void prepare(Context& context, char* stack, std::size_t size, void (*entry)()) {
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = size;
  context.uc_link = nullptr;
  makecontext(&context, entry, 0);
}
#else
// The registers that a call preserves lie on the fiber's own stack.
struct Context {
  void* stack = nullptr;
};
[[gnu::naked, gnu::noinline]] inline void switch_stacks(void** /*from*/, void* /*to*/) {
  asm("pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
      "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
      "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret");
}
inline void switch_to(Context& from, Context& to) { switch_stacks(&from.stack, to.stack); }
inline void prepare(Context& context, char* stack, std::size_t size, void (*entry)()) {
  auto top = reinterpret_cast<std::uintptr_t>(stack + size) & ~std::uintptr_t{15};
  auto* at = reinterpret_cast<void**>(top) - 1;  // the entry finds the stack as after a call
  *--at = reinterpret_cast<void*>(entry);
  at -= 6;
  std::fill_n(at, 6, nullptr);
  context.stack = at;
}
#endif

// Opens when all members have come.
struct Gate {
  unsigned members = 0, arrived = 0, opened = 0;
};

struct Fiber {
  Context context{};
  Gate* waits_at = nullptr;
  unsigned since = 0;  // the gate's `opened` when the wait began
  bool done = false;
};

struct Warp {
  Gate gate{32};
  std::uint32_t values[2][32] =
      {};  // in turns: a fast lane may be one exchange ahead of a slow one
};

struct Block {
  static constexpr std::size_t kStack = std::size_t{1} << 15;

  std::vector<Fiber> fibers;
  std::unique_ptr<char[]> stacks;
  std::vector<Warp> warps;
  std::vector<unsigned> ready;
  Gate all;
  Context home{};
  unsigned now = 0;  // the running fiber
  void (*body)(const void*) = nullptr;
  const void* arguments = nullptr;
  Dimensions index, grid;
  cuda::Barrier left_out;            // threads do not wait here
  std::set<cuda::Barrier> barriers;  // met so far
};
inline Block& block() {
  static thread_local Block the_block;
  return the_block;
}

inline void wait(Gate& gate) {
  Block& here = block();
  Fiber& me = here.fibers[here.now];
  me.waits_at = &gate;
  me.since = gate.opened;
  if (++gate.arrived == gate.members) {
    gate.arrived = 0;
    ++gate.opened;
  }
  switch_to(me.context, here.home);
}

// What all lanes of the warp gave.
inline const std::uint32_t* exchange(std::uint32_t mine) {
  Block& here = block();
  Warp& warp = here.warps[here.now / 32];
  std::uint32_t* values = warp.values[warp.gate.opened % 2];
  values[here.now % 32] = mine;
  wait(warp.gate);
  return values;
}

inline void enter() {
  Block& here = block();
  here.body(here.arguments);
  Fiber& me = here.fibers[here.now];
  me.done = true;
  switch_to(me.context, here.home);
}

// One thread block. False: threads wait for others that do not come.
inline bool run_block(unsigned threads, std::mt19937& random) {
  Block& here = block();
  if (here.fibers.size() != threads) {
    here.fibers.resize(threads);
    here.stacks.reset(new char[threads * Block::kStack]);
  }
  here.warps.assign(threads / 32, {});
  here.all = {threads};
  for (unsigned i = 0; i < threads; ++i) {
    here.fibers[i].done = false;
    here.fibers[i].waits_at = nullptr;
    prepare(here.fibers[i].context, here.stacks.get() + i * Block::kStack, Block::kStack, enter);
  }
  const auto slow = static_cast<std::uint32_t>(random());  // a bit per warp
  for (;;) {
    here.ready.clear();
    bool all_done = true, fast = false;
    for (unsigned i = 0; i < threads; ++i) {
      const Fiber& fiber = here.fibers[i];
      all_done = all_done && fiber.done;
      if (fiber.done || (fiber.waits_at != nullptr && fiber.waits_at->opened == fiber.since))
        continue;
      here.ready.push_back(i);
      fast = fast || (slow >> i / 32 & 1) == 0;
    }
    if (all_done) return true;
    if (here.ready.empty()) return false;
    std::shuffle(here.ready.begin(), here.ready.end(), random);
    for (const unsigned i : here.ready) {
      if (fast && (slow >> i / 32 & 1) != 0) continue;
      here.now = i;
      switch_to(here.home, here.fibers[i].context);
    }
  }
}

// kernel<<<{columns, rows}, threads>>>(arguments).
template <auto kKernel, class Arguments>
bool launch(unsigned columns, unsigned rows, unsigned threads, const void* arguments,
            unsigned seed) {
  std::mt19937 random(seed);
  Block& here = block();
  here.body = [](const void* of) { kKernel(*static_cast<const Arguments*>(of)); };
  here.arguments = arguments;
  here.grid = {columns, rows};
  for (unsigned y = 0; y < rows; ++y)
    for (unsigned x = 0; x < columns; ++x) {
      here.index = {x, y};
      if (!run_block(threads, random)) return false;
    }
  return true;
}

}  // namespace laconic::cuda::fibers

// CUDA's names.
namespace laconic::cuda {

struct ThreadIndex {
  struct {
    operator unsigned() const { return fibers::block().now; }
  } x;
};
inline constexpr ThreadIndex threadIdx{};
#define blockIdx (laconic::cuda::fibers::block().index)

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  fibers::Block& here = fibers::block();
  const Barrier barrier{file, line};
  if (here.now == 0) here.barriers.insert(barrier);
  if (here.left_out == barrier) return;
  fibers::wait(here.all);
}
inline std::uint32_t __ballot_sync(unsigned, bool mine) {
  const std::uint32_t* all = fibers::exchange(mine ? 1 : 0);
  std::uint32_t word = 0;
  for (int lane = 0; lane < 32; ++lane) word |= all[lane] << lane;
  return word;
}
template <class Value>
Value __shfl_xor_sync(unsigned, Value mine, int distance) {
  static_assert(sizeof(Value) == 4);
  std::uint32_t bits;
  std::memcpy(&bits, &mine, 4);
  const unsigned lane = fibers::block().now % 32;
  bits = fibers::exchange(bits)[lane ^ static_cast<unsigned>(distance)];
  std::memcpy(&mine, &bits, 4);
  return mine;
}
inline int __popc(std::uint32_t word) { return __builtin_popcount(word); }
// One fiber runs at a time; counters in global memory may be other threads' too.
template <class Whole>
Whole atomicAdd(Whole* at, Whole more) {
  return __atomic_fetch_add(at, more, __ATOMIC_RELAXED);
}
inline int atomicOr(int* at, int bits) { return __atomic_fetch_or(at, bits, __ATOMIC_RELAXED); }

using std::isfinite;
using std::signbit;

}  // namespace laconic::cuda
