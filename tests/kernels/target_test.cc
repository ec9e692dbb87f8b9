#include "laconic/kernels/target.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "laconic/core/error.h"
#include "tests/support/cases.h"

namespace laconic::kernels {
namespace {

class Target : public testing::OnEveryTarget {};
LACONIC_ON_EVERY_TARGET(Target);

TEST_P(Target, IsTheOneThatWasSet) { EXPECT_EQ(target(), GetParam()); }

TEST_P(Target, IsTheBestOneAgainAfterAnEmptyName) {
  set_target("");
  EXPECT_EQ(target(), targets().front());
}

TEST_P(Target, StaysWhenAnUnknownOneIsAskedFor) {
  try {
    set_target("ABACUS");
    FAIL() << "an unknown name was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("ABACUS"), std::string::npos) << error.what();
  }
  EXPECT_EQ(target(), GetParam());
}

TEST(Targets, AreListedOnceEach) {
  std::vector<std::string> names = targets();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(target(), names.front());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace laconic::kernels
