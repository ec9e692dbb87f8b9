#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "laconic/core/parallel.h"
#include "laconic/kernels/target.h"
#include "tests/support/same.h"

namespace laconic::testing {

enum class Kind { kOrdinary, kMixed, kHuge, kTiny, kSpecial };

// kOrdinary is about N(0, 1/3); kMixed spreads over 2^±40; kHuge overflows when squared; kTiny is
// denormals and zeros of both signs; kSpecial is ordinary with NaN, Inf and every edge among it.
float random_value(Kind kind, std::mt19937& random);

// Sizes, alignments and values that a kernel is tried on. Every array of a case is drawn anew and
// lies at another offset, in turn.
class Case {
 public:
  Case(std::size_t count, std::size_t offset, Kind kind);

  std::size_t count() const { return count_; }
  std::size_t words() const { return (count_ + 63) / 64; }
  std::string name() const;

  Array<float> floats();
  // As floats, with NaN and Inf replaced.
  Array<float> finite();
  // |floats|, one in eight 0: a second moment.
  Array<float> positive();
  // 0 and -0.0 in a third of the places.
  Array<float> live();
  // As many float lanes as a sum in progress has.
  Array<kernels::Lanes> lanes();
  Array<std::uint16_t> bf16();
  // Random bits: whole words for `count` elements, or `size` bytes.
  Array<std::uint8_t> bits();
  Array<std::uint8_t> bytes(std::size_t size);
  template <typename T>
  Array<T> array(std::vector<T> values) {
    return {std::move(values), next_offset()};
  }

 private:
  std::size_t next_offset() { return offset_++ % 4; }

  std::size_t count_, offset_;
  Kind kind_;
  std::mt19937 random_;
};

// Calls `check` for sizes around the words and blocks up to `largest`, four alignments and every
// kind of value, until one fails.
void for_each_case(FunctionRef<void(Case&)> check, std::size_t largest = 4097);
// The same with ordinary values only, for kernels of bits.
void for_each_size(FunctionRef<void(Case&)> check, std::size_t largest = 4097);

// A test that runs once for each instruction set of this CPU.
class OnEveryTarget : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;
  void TearDown() override { kernels::set_target(""); }
};

}  // namespace laconic::testing

#define LACONIC_ON_EVERY_TARGET(suite)                                                         \
  INSTANTIATE_TEST_SUITE_P(Targets, suite, ::testing::ValuesIn(::laconic::kernels::targets()), \
                           [](const auto& target) { return std::string(target.param); })
