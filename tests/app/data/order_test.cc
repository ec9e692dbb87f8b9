#include <algorithm>
#include <set>

#include "tests/app/data/data_files.h"

namespace laconic::app::data {
namespace {

std::vector<std::int64_t> epoch_of(const Order& order, std::int64_t n, std::int64_t epoch) {
  std::vector<std::int64_t> examples;
  for (std::int64_t i = 0; i < n; ++i) examples.push_back(order(epoch * n + i));
  return examples;
}

TEST(Order, EveryEpochIsAPermutation) {
  std::vector<std::int64_t> sizes = {255, 256, 257, 1000, 4097, 60000};
  for (std::int64_t n = 1; n <= 70; ++n) sizes.push_back(n);
  for (const std::int64_t n : sizes)
    for (const std::int64_t epoch : {0, 1, 17}) {
      auto examples = epoch_of(Order(n, 3), n, epoch);
      std::sort(examples.begin(), examples.end());
      ASSERT_EQ(examples, first_examples(n)) << n << " examples, epoch " << epoch;
    }
}

TEST(Order, EpochsAndSeedsDiffer) {
  const Order order(1000, 1), other(1000, 2), same(1000, 1);
  EXPECT_NE(epoch_of(order, 1000, 0), epoch_of(order, 1000, 1));
  EXPECT_NE(epoch_of(order, 1000, 0), epoch_of(other, 1000, 0));
  EXPECT_EQ(epoch_of(order, 1000, 5), epoch_of(same, 1000, 5));
  EXPECT_NE(epoch_of(order, 1000, 0), first_examples(1000));
}

TEST(Order, EveryExampleIsAsLikelyAtEveryPlace) {
  constexpr std::int64_t kN = 6, kEpochs = 6000;
  std::vector<int> counts(kN * kN);
  const Order order(kN, 9);
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch)
    for (std::int64_t i = 0; i < kN; ++i)
      ++counts[static_cast<std::size_t>(i * kN + order(epoch * kN + i))];
  for (const int count : counts) EXPECT_NEAR(count, kEpochs / kN, 180);  // 6 standard deviations
}

TEST(Order, ReachesEndsOfTheLargestRanges) {
  const std::int64_t n = (std::int64_t{1} << 32) - 5;
  std::set<std::int64_t> seen;
  const Order order(n, 0);
  for (std::int64_t i = 0; i < 2000; ++i) {
    const std::int64_t example = order(n - 1 - i);
    ASSERT_GE(example, 0);
    ASSERT_LT(example, n);
    seen.insert(example);
  }
  EXPECT_EQ(seen.size(), 2000U);
  EXPECT_GT(*seen.rbegin(), n / 2);
}

TEST(ExamplesOf, RanksShareNoExampleWithinAnEpochAndTogetherTakeAll) {
  constexpr std::int64_t kN = 120, kBatch = 5;
  for (const int ranks : {1, 2, 3, 4}) {
    std::set<std::int64_t> seen;
    const std::int64_t steps = kN / (ranks * kBatch);
    for (std::int64_t step = 1; step <= steps; ++step)
      for (int rank = 0; rank < ranks; ++rank)
        for (const std::int64_t example : examples_of(Order(kN, 4), step, rank, ranks, kBatch))
          EXPECT_TRUE(seen.insert(example).second) << example << " comes twice";
    EXPECT_EQ(std::ssize(seen), steps * ranks * kBatch);
  }
}

TEST(ExamplesOf, AnyStepCanBeAskedForFirst) {
  std::vector<std::vector<std::int64_t>> forth, back;
  const Order order(77, 8);
  for (std::int64_t step = 1; step <= 40; ++step)
    forth.push_back(examples_of(order, step, 1, 3, 4));
  for (std::int64_t step = 40; step >= 1; --step)
    back.push_back(examples_of(Order(77, 8), step, 1, 3, 4));
  std::reverse(back.begin(), back.end());
  EXPECT_EQ(forth, back);
}

TEST(ExamplesOf, TheSameGlobalBatchIsTheSameExamplesForAnyNumberOfRanks) {
  const Order order(1000, 8);
  std::vector<std::int64_t> together;
  for (int rank = 0; rank < 4; ++rank)
    for (const std::int64_t example : examples_of(order, 7, rank, 4, 3))
      together.push_back(example);
  EXPECT_EQ(together, examples_of(order, 7, 0, 1, 12));
}

TEST(Order, ImpossibleArgumentsAreRefused) {
  EXPECT_EQ(thrown_code([] { Order(0, 1); }), Code::kInvalidArgument);
  const Order order(10, 1);
  EXPECT_EQ(thrown_code([&] { examples_of(order, 0, 0, 1, 1); }), Code::kInvalidArgument);
  EXPECT_EQ(thrown_code([&] { examples_of(order, 1, 2, 2, 1); }), Code::kInvalidArgument);
  EXPECT_EQ(thrown_code([&] { examples_of(order, 1, 0, 1, 0); }), Code::kInvalidArgument);
}

}  // namespace
}  // namespace laconic::app::data
