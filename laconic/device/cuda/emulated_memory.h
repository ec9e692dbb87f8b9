#pragma once

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <vector>

#include "laconic/device/cuda/driver.h"

namespace laconic::cuda {

// What memory holds before it is written.
inline constexpr unsigned char kPoison = 0xA5;

// Memory of the stand-in for a GPU: out of the host's reach but while operations run.
class EmulatedMemory {
 public:
  static constexpr std::size_t kSize = std::size_t{1} << 38, kGrain = std::size_t{1} << 16;

  EmulatedMemory()
      : base_(static_cast<char*>(
            mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}

  Address allocate(std::size_t bytes) {
    const std::size_t size = (bytes + kGrain - 1) / kGrain * kGrain;
    if (base_ == MAP_FAILED || bytes > limit_) return 0;
    std::size_t at = used_;
    auto& same = spare_[size];
    if (same.empty()) {
      if (size > kSize - used_) return 0;
      used_ += size;
    } else {
      at = same.back();
      same.pop_back();
    }
    pieces_[at] = size;
    mprotect(base_ + at, size, PROT_READ | PROT_WRITE);
    std::memset(base_ + at, kPoison, bytes);
    mprotect(base_ + at, size, PROT_NONE);
    return reinterpret_cast<Address>(base_ + at);
  }
  bool release(Address address) {
    const std::size_t at = reinterpret_cast<char*>(address) - base_;
    const auto found = pieces_.find(at);
    if (found == pieces_.end()) return false;
    madvise(base_ + at, found->second, MADV_DONTNEED);
    spare_[found->second].push_back(at);
    pieces_.erase(found);
    return true;
  }
  // Every change stops the other threads for a moment, so one serves all that a wait runs.
  void reach(bool wanted) {
    if (used_ == 0 || reachable_ == wanted) return;
    mprotect(base_, used_, wanted ? PROT_READ | PROT_WRITE : PROT_NONE);
    reachable_ = wanted;
  }
  void limit(std::size_t bytes) { limit_ = bytes == 0 ? kSize : bytes - 1; }

 private:
  char* base_;
  bool reachable_ = false;
  std::size_t used_ = 0, limit_ = kSize;
  std::map<std::size_t, std::size_t> pieces_;              // offset, size
  std::map<std::size_t, std::vector<std::size_t>> spare_;  // of a size: offsets
};

}  // namespace laconic::cuda
