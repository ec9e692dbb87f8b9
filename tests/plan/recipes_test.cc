#include "laconic/plan/recipes.h"

#include <gtest/gtest.h>

#include "tests/support/refusal.h"

namespace laconic::plan {
namespace {

struct Published {
  const char* name;
  double one_bit, zero_one, volume, rounds;  // 16-bit dense rounds
  double fp32_volume;
};

TEST(Recipes, GiveTheNumbersOfTheSpecification) {
  for (const Published& wanted : {Published{"bert-base", 3.034, 0.618, 0.796, 0.402, 0.877},
                                  Published{"bert-large", 3.270, 0.504, 0.846, 0.511, 0.908}}) {
    SCOPED_TRACE(wanted.name);
    const Recipe& has = recipe(wanted.name);
    EXPECT_NEAR(has.every_step().bits_per_parameter_per_step(16, 1), wanted.one_bit, 5e-4);
    EXPECT_NEAR(has.local_steps().bits_per_parameter_per_step(16, 1), wanted.zero_one, 5e-4);
    EXPECT_NEAR(has.volume_reduction(16, 1), wanted.volume, 5e-4);
    EXPECT_NEAR(has.round_reduction(), wanted.rounds, 5e-4);
    EXPECT_NEAR(has.volume_reduction(32, 1.008), wanted.fp32_volume, 5e-4);
    EXPECT_TRUE(has.verified);
  }
}

TEST(Recipes, CountEveryStepOnce) {
  for (const Recipe& one : recipes()) {
    SCOPED_TRACE(one.name);
    EXPECT_EQ(one.every_step().rounds(), one.steps);
    EXPECT_EQ(one.every_step().dense, one.freeze_step);
    EXPECT_LT(one.local_steps().rounds(), one.steps);
  }
  EXPECT_EQ(recipe("gpt2").local_steps().rounds(), 215'000);
  EXPECT_EQ(recipe("imagenet").local_steps().dense, 185);
}

TEST(Recipes, ThatDoNotExistAreRefusedWithThoseThatDo) {
  EXPECT_TRUE(testing::says(testing::refusal_of([] { recipe("bert-huge"); }),
                            {"bert-huge", "bert-base, bert-large, gpt2, imagenet"}));
}

}  // namespace
}  // namespace laconic::plan
