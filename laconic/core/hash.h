#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace laconic::inline core {

// XXH3, 64 bits: the same value on every machine. Finds accidents, not adversaries.
std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;

// The same value from bytes that come piece by piece. Throws std::bad_alloc.
class Hash64 {
 public:
  explicit Hash64(std::uint64_t seed = 0);
  void add(std::span<const std::byte> bytes) noexcept;
  std::uint64_t value() const noexcept;

 private:
  struct Free {
    void operator()(void* state) const noexcept;
  };
  std::unique_ptr<void, Free> state_;
};

}  // namespace laconic::inline core
