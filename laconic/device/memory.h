#pragma once

#include <memory>
#include <span>
#include <type_traits>

#include "laconic/device/device.h"

namespace laconic::inline device {

// A fixed-length array in memory of a device, zeroed. Movable, not copyable; never grows. Only the
// device may read or write what it holds. The device outlives it.
template <typename T>
class Memory {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Memory() = default;
  Memory(Device& device, std::size_t size)
      : data_(size ? static_cast<T*>(device.allocate(size * sizeof(T))) : nullptr, Free{&device}),
        size_(size) {}

  T* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::span<T> span() const noexcept { return {data(), size_}; }

 private:
  struct Free {
    Device* device = nullptr;
    void operator()(T* memory) const noexcept { device->free(memory); }
  };
  std::unique_ptr<T[], Free> data_;
  std::size_t size_ = 0;
};

// Whole spans of equal length.
template <typename T>
void copy_on(Device& device, std::span<const T> from, std::span<T> to) {
  device.copy(from.data(), to.data(), from.size_bytes());
}
template <typename T>
void copy_to(Device& device, std::span<const T> from_host, std::span<T> to) {
  device.copy_in(from_host.data(), to.data(), from_host.size_bytes());
}
template <typename T>
void copy_from(Device& device, std::span<const T> from, std::span<T> to_host) {
  device.copy_out(from.data(), to_host.data(), from.size_bytes());
}

}  // namespace laconic::inline device
