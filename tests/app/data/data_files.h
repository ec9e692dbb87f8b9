#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "app/data/dataset.h"
#include "tests/checkpoint/scratch.h"
#include "tests/support/thrown.h"

namespace laconic::app::data {

using laconic::testing::Scratch;
using laconic::testing::write_text;

// A file or directory of real data, which $LACONIC_TEST_DATA holds; empty if there is none.
inline std::string real_data(const std::string& name) {
  const char* directory = std::getenv("LACONIC_TEST_DATA");
  const auto path = std::filesystem::path(directory == nullptr ? "" : directory) / name;
  return directory != nullptr && std::filesystem::exists(path) ? path.string() : "";
}

#define LACONIC_REAL_DATA(path, name)                                      \
  const std::string path = real_data(name);                                \
  if (path.empty())                                                        \
  GTEST_SKIP() << (name)                                                   \
               << " is not there: set LACONIC_TEST_DATA to the directory " \
                  "that holds it"

inline Batch batch_of(const Dataset& data, Split split, std::vector<std::int64_t> examples,
                      std::uint64_t draw = 0) {
  Batch batch;
  data.read(split, examples, draw, batch);
  return batch;
}

inline std::vector<std::int64_t> first_examples(std::int64_t count) {
  std::vector<std::int64_t> examples(static_cast<std::size_t>(count));
  std::iota(examples.begin(), examples.end(), 0);
  return examples;
}

inline Batch all_of(const Dataset& data, Split split, std::uint64_t draw = 0) {
  return batch_of(data, split, first_examples(data.size(split)), draw);
}

}  // namespace laconic::app::data
