#include "laconic/transport/agree.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "laconic/transport/together.h"
#include "tests/support/ranks.h"
#include "tests/support/thrown.h"

namespace laconic {
namespace {

class Agree : public testing::TestWithParam<int> {
 protected:
  static int last() { return GetParam() - 1; }
  // What every rank throws when the last one has other lines than the others.
  static void expect_difference(const std::vector<std::string>& lines,
                                const std::vector<std::string>& of_last,
                                const std::string& message) {
    run_ranks(GetParam(), [&](Transport& world) {
      const auto error = thrown(
          [&] { agree(world, world.rank() == last() ? of_last : lines, "do as the others"); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Code::kInvalidArgument);
      EXPECT_EQ(error->what(), message);
      EXPECT_EQ(world.gather(world.rank()).size(), static_cast<std::size_t>(world.size()));
    });
  }
};

TEST_P(Agree, EqualLinesAreFine) {
  run_ranks(GetParam(), [](Transport& world) {
    const std::vector<std::string> lines = {"5 weights", "seed 7", ""};
    agree(world, lines, "do as the others");
    agree(world, {}, "do as the others");
  });
}

TEST_P(Agree, TheFirstLineThatDiffersIsNamedWithBothValues) {
  if (last() == 0) GTEST_SKIP() << "one rank agrees with itself";
  const auto who = [](const char* theirs, const char* first) {
    return fmt::format("rank {} has {}, rank 0 has {}: do as the others", last(), theirs, first);
  };
  expect_difference({"5 weights", "seed 7", "x"}, {"5 weights", "seed 78", "y"},
                    who("seed 78", "seed 7"));
  expect_difference({"5 weights"}, {"6 weights"}, who("6 weights", "5 weights"));
  expect_difference({"a", "b"}, {"a"}, who("nothing more", "b"));
  expect_difference({}, {"a"}, who("a", "nothing more"));
  expect_difference({"ab"}, {"a", "b"}, who("a", "ab"));
}

class Together : public Agree {
 protected:
  // What every rank throws when `work` fails on the last one.
  static void expect_code(Code code, const std::string& words, const std::function<void()>& work) {
    run_ranks(GetParam(), [&](Transport& world) {
      expect_says(thrown([&] {
                    together(world, [&] {
                      if (world.rank() == last()) work();
                      return std::uint64_t{0};
                    });
                  }),
                  code, {fmt::format("rank {}: ", last()), words});
    });
  }
};

TEST_P(Together, GivesWhatEveryRankReturned) {
  run_ranks(GetParam(), [](Transport& world) {
    const auto all = together(world, [&] { return 10 + static_cast<std::uint64_t>(world.rank()); });
    ASSERT_EQ(all.size(), static_cast<std::size_t>(world.size()));
    for (std::size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], 10 + r);
  });
}

TEST_P(Together, AnErrorKeepsItsCode) {
  expect_code(Code::kCorrupt, "bad byte 7", [] { fail(Code::kCorrupt, "bad byte {}", 7); });
}

TEST_P(Together, WhatAFileSystemThrowsIsAFileError) {
  expect_code(Code::kFile, "no/such/folder",
              [] { std::filesystem::rename("no/such/folder/file", "file"); });
  expect_code(Code::kFile, "", [] {
    std::ifstream file;
    file.exceptions(std::ios::failbit);
    file.open("no/such/folder/file");
  });
}

TEST_P(Together, WhatOtherCodeThrowsIsNoFileError) {
  expect_code(Code::kInternal, "shape [3]", [] { throw std::logic_error("shape [3]"); });
  expect_code(Code::kInternal, "no std::exception", [] { throw 3; });
  expect_code(Code::kUnavailable, "memory", [] { throw std::bad_alloc(); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Agree, testing::ValuesIn(rank_counts()),
                         testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Ranks, Together, testing::ValuesIn(rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace laconic
