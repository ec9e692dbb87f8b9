#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

namespace laconic::inline core {

// Zeroed memory aligned to 64 bytes; large ones ask for huge pages. Throws std::bad_alloc.
void* allocate_aligned(std::size_t bytes);
void free_aligned(void* memory) noexcept;

// A fixed-length array in aligned, zeroed memory. Movable, not copyable; never grows.
template <typename T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(std::size_t size)
      : data_(size ? static_cast<T*>(allocate_aligned(size * sizeof(T))) : nullptr), size_(size) {}

  T* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t i) const noexcept { return data_.get()[i]; }
  std::span<T> span() const noexcept { return {data(), size_}; }

 private:
  struct Free {
    void operator()(T* memory) const noexcept { free_aligned(memory); }
  };
  std::unique_ptr<T[], Free> data_;
  std::size_t size_ = 0;
};

}  // namespace laconic::inline core
