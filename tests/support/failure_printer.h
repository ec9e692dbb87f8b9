#pragma once

#include <gtest/gtest.h>

#include <cstdio>

namespace laconic {

// Prints only what fails: rank 0 prints the rest.
class FailurePrinter : public ::testing::EmptyTestEventListener {
 public:
  // On a rank other than 0, in place of GoogleTest's own printer. After InitGoogleTest.
  static void install(int rank) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(rank));
  }

  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "[rank %d] %s:%d: %s\n", rank_,
                   result.file_name() ? result.file_name() : "?", result.line_number(),
                   result.message());
  }

 private:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  int rank_;
};

}  // namespace laconic
