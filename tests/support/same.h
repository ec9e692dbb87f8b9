#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "laconic/core/buffer.h"
#include "laconic/kernels/integer.h"
#include "laconic/kernels/sign.h"

// Two functions with one contract are run on equal arrays, and all bytes must come out equal.
namespace laconic::testing {

// Equal bits, or both NaN: what a NaN carries is not specified.
inline bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

inline bool same(const kernels::Lanes& a, const kernels::Lanes& b) {
  for (int j = 0; j < 16; ++j)
    if (!same(a.lane[j], b.lane[j])) return false;
  return true;
}

template <typename T>
requires std::is_integral_v<T>
bool same(T a, T b) { return a == b; }

// Equal bits, or both quiet NaN.
inline bool same_bf16(const std::uint16_t& a, const std::uint16_t& b) {
  return a == b || ((a & 0x7FC0) == 0x7FC0 && (b & 0x7FC0) == 0x7FC0);
}

inline std::string show(float a) {
  return fmt::format("{:g} ({:08x})", a, std::bit_cast<std::uint32_t>(a));
}
template <typename T>
requires std::is_integral_v<T> std::string show(T a) {
  return fmt::format("{:#x}", static_cast<std::uint64_t>(a));
}

template <typename T>
std::string difference(const T& a, const T& b) {
  return fmt::format("{}, not {}", show(a), show(b));
}
inline std::string difference(const kernels::Lanes& a, const kernels::Lanes& b) {
  for (int j = 0; j < 16; ++j)
    if (!same(a.lane[j], b.lane[j]))
      return fmt::format("in lane {} {}", j, difference(a.lane[j], b.lane[j]));
  return "equal";
}

// Values for a kernel, to be laid `offset` elements off alignment.
template <typename T>
struct Array {
  std::vector<T> values;
  std::size_t offset = 0;
  bool (*equal)(const T&, const T&) = [](const T& a, const T& b) { return same(a, b); };
};

// Several arrays, for a parameter that is an array of pointers.
template <typename T>
using Arrays = std::vector<Array<T>>;

// Coded blocks, for `serve` and `decode`.
struct CodedArray {
  float scale;
  Array<std::uint8_t> bits;
};

// The same of integers.
struct IntegersArray {
  float scale;
  Array<std::uint8_t> codes;
};

// Converts to what a kernel's parameter wants.
template <typename T>
struct Placed {
  T* memory;
  operator T*() const { return memory; }  // NOLINT: implicit on purpose
  operator T&() const { return *memory; }
};

// The arrays of one call, each a copy between guard zones. An Array passed twice is one copy: that
// is how aliasing is tested.
class Side {
 public:
  static constexpr std::size_t kGuard = 256;

  struct Copy {
    const void* source;
    Buffer<std::byte> memory;
    std::size_t begin, bytes;
    // The first difference in words, or nothing.
    std::function<std::string(const Copy& other)> compare_to;

    std::byte* data() const { return memory.data() + begin; }
  };

  template <typename T>
  Placed<T> place(const Array<T>& array) {
    for (const Copy& copy : copies_)
      if (copy.source == &array) return {reinterpret_cast<T*>(copy.data())};
    const std::size_t begin = kGuard + array.offset * sizeof(T);
    const std::size_t bytes = array.values.size() * sizeof(T);
    Copy& copy = copies_.emplace_back(
        Copy{&array, Buffer<std::byte>(begin + bytes + kGuard), begin, bytes, {}});
    std::memset(copy.memory.data(), 0xA5, copy.memory.size());
    if (bytes != 0) std::memcpy(copy.data(), array.values.data(), bytes);
    copy.compare_to = [&copy, equal = array.equal](const Copy& other) {
      return compare<T>(copy, other, equal);
    };
    return {reinterpret_cast<T*>(copy.data())};
  }

  template <typename T>
  const T* const* place(const Arrays<T>& arrays) {
    auto& pointers = pointers_.emplace_back();
    for (const Array<T>& array : arrays) pointers.push_back(place(array).memory);
    return reinterpret_cast<const T* const*>(pointers.data());
  }

  const kernels::Coded* place(const std::vector<CodedArray>& arrays) {
    auto& coded = coded_.emplace_back();
    for (const CodedArray& array : arrays) coded.push_back(place(array));
    return coded.data();
  }

  kernels::Coded place(const CodedArray& array) { return {array.scale, place(array.bits).memory}; }

  const kernels::Integers* place(const std::vector<IntegersArray>& arrays) {
    auto& coded = integers_.emplace_back();
    for (const IntegersArray& array : arrays) coded.push_back(place(array));
    return coded.data();
  }
  kernels::Integers place(const IntegersArray& array) {
    return {array.scale, place(array.codes).memory};
  }

  template <typename T>
  const T& place(const T& scalar) {
    return scalar;
  }

  const std::deque<Copy>& copies() const { return copies_; }

 private:
  template <typename T>
  static std::string compare(const Copy& a, const Copy& b, bool (*equal)(const T&, const T&)) {
    const auto* x = reinterpret_cast<const T*>(a.data());
    const auto* y = reinterpret_cast<const T*>(b.data());
    for (std::size_t k = 0; k < a.bytes / sizeof(T); ++k)
      if (!equal(x[k], y[k])) return fmt::format("[{}] is {}", k, difference(x[k], y[k]));
    for (std::size_t i = 0; i < a.memory.size(); ++i)
      if ((i < a.begin || i >= a.begin + a.bytes) && a.memory[i] != std::byte{0xA5})
        return fmt::format("was written outside, {} bytes after its {} bytes began",
                           static_cast<std::ptrdiff_t>(i - a.begin), a.bytes);
    return {};
  }

  std::deque<Copy> copies_;
  std::deque<std::vector<const void*>> pointers_;
  std::deque<std::vector<kernels::Coded>> coded_;
  std::deque<std::vector<kernels::Integers>> integers_;
};

template <typename Function, typename... Args>
auto call_on(Side& side, Function* function, const Args&... args) {
  // Braces: the arrays are placed from left to right.
  return std::apply(function, std::tuple<decltype(side.place(args))...>{side.place(args)...});
}

// Runs both and compares results and arrays.
template <typename Function, typename... Args>
void expect_same(Function* fast, Function* slow, const Args&... args) {
  Side one, other;
  if constexpr (std::is_void_v<decltype(call_on(one, fast, args...))>) {
    call_on(one, fast, args...);
    call_on(other, slow, args...);
  } else {
    const auto a = call_on(one, fast, args...);
    const auto b = call_on(other, slow, args...);
    EXPECT_TRUE(same(a, b)) << "returned " << difference(a, b);
  }
  for (std::size_t i = 0; i < one.copies().size(); ++i) {
    const std::string seen = one.copies()[i].compare_to(other.copies()[i]);
    EXPECT_TRUE(seen.empty()) << "array " << i << " of the call" << seen;
    const std::string beside = other.copies()[i].compare_to(one.copies()[i]);
    EXPECT_TRUE(!seen.empty() || beside.empty()) << "the reference's array " << i << beside;
  }
}

}  // namespace laconic::testing
