#include "app/training/guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace laconic::app::training {
namespace {

// A loss that falls slowly and shakes by 2 %.
double usual(int step) { return 3 - 0.005 * step + 0.06 * std::sin(2.3 * step); }

Guard after(int steps) {
  Guard guard;
  for (int t = 0; t < steps; ++t) EXPECT_FALSE(guard.look(usual(t), 0.5)) << t;
  return guard;
}

TEST(Guard, LetsAnOrdinaryRunBe) { after(500); }

TEST(Guard, AnswersASpikeOfTheLossOnce) {
  Guard guard = after(100);
  const auto why = guard.look(6, 0.5);
  ASSERT_TRUE(why);
  EXPECT_NE(why->find("loss is 6"), std::string::npos) << *why;
  EXPECT_EQ(guard.left(), Guard::kExactSteps);
  EXPECT_FALSE(guard.look(6, 0.5)) << "the steps are exact already";
  for (int i = 0; i < Guard::kExactSteps; ++i) guard.stepped();
  EXPECT_EQ(guard.left(), 0);
  EXPECT_TRUE(guard.look(6, 0.5));
}

TEST(Guard, AnswersASpikeOfTheResidual) {
  Guard guard = after(100);
  const auto why = guard.look(usual(100), 5);
  ASSERT_TRUE(why);
  EXPECT_NE(why->find("residual"), std::string::npos) << *why;
}

TEST(Guard, DoesNotJudgeBeforeItKnowsWhatIsUsual) {
  Guard guard = after(Guard::kAtLeast - 1);
  EXPECT_FALSE(guard.look(100, 0.5));
}

TEST(Guard, LeavesALossThatIsNotFiniteToOthers) {
  Guard guard = after(100);
  EXPECT_FALSE(guard.look(std::numeric_limits<double>::quiet_NaN(), 0.5));
  EXPECT_TRUE(guard.look(6, 0.5)) << "and has learned nothing from it";
}

TEST(Guard, GoesOnWhereItWasSaved) {
  Guard guard = after(100), other;
  guard.look(6, 0.5);
  guard.stepped();
  other.restore(nlohmann::json::parse(guard.state().dump()));
  EXPECT_EQ(other.state(), guard.state());
  EXPECT_EQ(other.left(), Guard::kExactSteps - 1);
}

}  // namespace
}  // namespace laconic::app::training
