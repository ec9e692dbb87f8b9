#include "laconic/core/buffer.h"

#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace laconic::inline core {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

void* allocate_aligned(std::size_t bytes) {
  const bool large = bytes >= 2 * kHugePage;
  const std::size_t alignment = large ? kHugePage : kAlignment;
  if (bytes > SIZE_MAX - alignment) throw std::bad_alloc();
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__)
  if (large) madvise(memory, rounded, MADV_HUGEPAGE);  // advice: a refusal changes nothing
#endif
  std::memset(memory, 0, rounded);
  return memory;
}

void free_aligned(void* memory) noexcept { std::free(memory); }

}  // namespace laconic::inline core
