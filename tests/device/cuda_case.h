#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "laconic/device/cuda/kernels.h"
#include "laconic/device/jobs.h"

// Launches of kernels and what must become of their memory, which a host device computes. The cases
// run on fibers here, and on compiled kernels elsewhere (ptx_test.py).
namespace laconic::testing {

// An array of both sides.
template <typename T>
struct Both {
  T *host, *device;
  std::size_t size;
};

class Case {
 public:
  struct Array {
    std::string name, kind;  // kind: f4, f8, u1, …, as NumPy's
    std::vector<std::byte> before, expected, device;
  };

  std::string name, kernel;
  cuda::Grid grid{};
  std::vector<std::byte> arguments;  // with addresses of `device`
  std::deque<Array> arrays;
  std::mt19937 random;

  Case(std::string kernel, std::string name)
      : name(kernel + ", " + name),
        kernel(std::move(kernel)),
        random(static_cast<unsigned>(std::hash<std::string>{}(this->name))) {}

  template <typename T>
  Both<T> add(const std::string& array, const std::vector<T>& values) {
    const auto* first = reinterpret_cast<const std::byte*>(values.data());
    const std::vector<std::byte> bytes(first, first + values.size() * sizeof(T));
    Array& one = arrays.emplace_back(Array{array, kind_of<T>(), bytes, bytes, bytes});
    return {reinterpret_cast<T*>(one.expected.data()), reinterpret_cast<T*>(one.device.data()),
            values.size()};
  }
  Both<cuda::Counter> counter(const std::string& array) { return add<cuda::Counter>(array, {5}); }

  template <typename Arguments>
  void launch(cuda::Grid shape, const Arguments& of) {
    grid = shape;
    arguments.resize(sizeof of);
    std::memcpy(arguments.data(), &of, sizeof of);
  }

  // Vectors with values at the edges of fp32.
  std::vector<float> floats(std::size_t count, const std::string& kind = "normal");

 private:
  template <typename T>
  static std::string kind_of() {
    if constexpr (std::is_same_v<T, float>) return "f4";
    if constexpr (std::is_same_v<T, double>) return "f8";
    return "u" + std::to_string(sizeof(T) > 8 ? 8 : sizeof(T));
  }
};

// Rows of a vector, as a slice of its chunks.
struct Geometry {
  std::size_t elements, chunk, begin, capacity;
  unsigned rows;

  // `slice`: where it begins in the chunks; `capacity` 0: it has the rest of them.
  Geometry(std::size_t elements, unsigned rows, std::size_t slice = 0, std::size_t capacity = 0);
  Range range(unsigned row) const;
  cuda::Rows device(std::size_t item) const;
};

using Cases = std::deque<Case>;  // a case never moves: its arguments have addresses of its arrays
void add_dense_cases(Cases& cases);
void add_encode_cases(Cases& cases);
void add_signs_cases(Cases& cases);
void add_decode_cases(Cases& cases);
void add_pass_cases(Cases& cases);
Cases all_cases();

kernels::AdamStep adam_step();

}  // namespace laconic::testing
