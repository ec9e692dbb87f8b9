#include <gtest/gtest.h>

#include "laconic/optim/optimizer.h"
#include "laconic/plan/cost.h"
#include "laconic/plan/recipes.h"
#include "tests/support/ranks.h"
#include "tests/support/refusal.h"

// Exchanges that are far apart, in parts, or late; links and ranks that are not alike.
namespace laconic::plan {
namespace {

using testing::refusal_of;
using testing::says;

constexpr double kMbit = 1e6 / 8;
constexpr std::int64_t kRun = 10'000;

OptimizerConfig local(std::int64_t every, std::int64_t fragments = 1, std::int64_t delay = 0,
                      const char* codec = "int4") {
  OptimizerConfig config{.algorithm = "local-steps", .total_steps = kRun};
  config.every = every;
  config.fragments = fragments;
  config.delay = delay;
  set(config, "codec", codec);
  return validated(config);
}

Cluster wide(double mbit = 100, double latency = 0.05) {
  return {.nodes = 4, .per_node = 1, .inter = {mbit * kMbit, latency}, .intra = {}};
}

Work work_of(double step_seconds = 0.1) {
  return {.parameters = 10'000'001, .step_seconds = step_seconds};
}

Average forecast(const Cluster& cluster, const Work& work, const OptimizerConfig& config) {
  return predict(cluster, work, {}, method_of(config), rounds_of(config, kRun));
}

double seconds(const OptimizerConfig& config, const Cluster& cluster = wide(),
               const Work& work = work_of()) {
  return forecast(cluster, work, config).mean.seconds;
}

TEST(LocalForecast, CostsLessTheLessIsExchanged) {
  double before = 1e9;
  for (const std::int64_t every : {1, 5, 25, 100, 500}) {
    const double now = seconds(local(every));
    EXPECT_LT(now, before) << every;
    before = now;
  }
  EXPECT_NEAR(before, forecast(wide(), work_of(), local(500)).silent.seconds, 0.02);
}

TEST(LocalForecast, ADelayHidesWhatFitsIntoItAndExposesTheRest) {
  const Average fits = forecast(wide(), work_of(), local(100, 1, 50));
  EXPECT_EQ(fits.coded.exposed, 0);
  EXPECT_GT(fits.coded.beside, 0.1);
  EXPECT_LT(fits.mean.seconds, 1.02 * fits.silent.seconds);
  EXPECT_LT(fits.mean.seconds, seconds(local(100)));
  const Average late = forecast(wide(1), work_of(), local(100, 1, 50));
  EXPECT_NEAR(late.coded.exposed, late.coded.beside - 50 * late.silent.seconds, 1e-9);
  EXPECT_LT(late.mean.seconds, seconds(local(100), wide(1)));
  // The same bytes, whenever they travel.
  EXPECT_EQ(fits.coded.bytes_between, forecast(wide(), work_of(), local(100)).coded.bytes_between);
}

TEST(LocalForecast, ADelayNeverCostsMoreThanWaiting) {
  for (const double mbit : {1.0, 10.0, 100.0, 10'000.0})
    for (const std::int64_t delay : {1, 5, 25})
      EXPECT_LE(seconds(local(25, 1, delay), wide(mbit)), 1.01 * seconds(local(25), wide(mbit)))
          << mbit << " mbit/s, delay " << delay;
}

TEST(LocalForecast, CodingBesideTrainingTakesTurnsWithItOnSharedCores) {
  Work shared = work_of();
  shared.shares_cores = true;
  const Average own = forecast(wide(), work_of(), local(100, 1, 50));
  const Average turns = forecast(wide(), shared, local(100, 1, 50));
  EXPECT_GT(turns.coded.seconds, own.coded.seconds);
}

TEST(LocalForecast, FragmentsSendTheSameInMoreSteps) {
  const Average whole = forecast(wide(), work_of(), local(100));
  const Average parts = forecast(wide(), work_of(), local(100, 4));
  EXPECT_NEAR(4 * parts.coded.bytes_between, whole.coded.bytes_between,
              0.001 * whole.coded.bytes_between);
  EXPECT_NEAR(parts.coded_share, 4 * whole.coded_share, 1e-3);
  // The last step exchanges all of them once more.
  EXPECT_NEAR(parts.mean.bytes_between, whole.mean.bytes_between, 0.01 * whole.mean.bytes_between);
}

TEST(LocalForecast, HasTheBytesThatAnOptimizerReports) {
  constexpr std::size_t kWeights = 50'001, kBucket = 9'000;
  const std::int64_t steps = 24;
  for (const char* codec : {"fp32", "bf16", "int4", "sign", "top-k"})
    for (const auto& [fragments, delay] : {std::pair(1, 0), {2, 0}, {2, 3}, {1, 8}})
      run_ranks(4, [&, fragments = fragments, delay = delay](Transport& world) {
        OptimizerConfig config = local(8, fragments, delay, codec);
        config.bucket_elements = kBucket;
        config.total_steps = steps;
        std::vector<float> weights(kWeights, 1.0F), gradient(kWeights, 0.25F);
        const auto optimizer = make_optimizer(
            config, {.weights = weights, .gradient = gradient, .groups = {}, .ranges = {}}, world);
        optimizer->step(1e-3);
        const std::uint64_t first = optimizer->totals().bytes;  // ranks compare their weights
        for (std::int64_t t = 1; t < steps; ++t) optimizer->step(1e-3);
        const Average all = predict({.nodes = 4, .per_node = 1, .inter = {}, .intra = {}},
                                    {.parameters = kWeights, .bucket_elements = kBucket}, {},
                                    method_of(config), rounds_of(config, steps));
        EXPECT_NEAR(all.mean.bytes_between * static_cast<double>(steps),
                    static_cast<double>(optimizer->totals().bytes - first), 0.5)
            << codec << ", " << fragments << " fragments, delay " << delay;
      });
}

TEST(UnequalLinks, ThatAreEqualAreOneLink) {
  Cluster same = wide();
  same.inter_of.assign(4, same.inter);
  for (const OptimizerConfig& config : {local(1), local(20), local(20, 2, 5)})
    EXPECT_EQ(seconds(config, same), seconds(config));
}

TEST(UnequalLinks, ExchangesWaitForTheSlowest) {
  Cluster mixed = wide(1000, 0.001);
  mixed.inter_of.assign(4, mixed.inter);
  mixed.inter_of[2] = {10 * kMbit, 0.001};
  EXPECT_NEAR(seconds(local(10), mixed), seconds(local(10), wide(10, 0.001)), 1e-9);
  // One is slow, another is far away: no less than either, and no more than both at once.
  mixed.inter_of[2] = {50 * kMbit, 0.001};
  mixed.inter_of[3] = {1000 * kMbit, 0.1};
  EXPECT_GE(seconds(local(10), mixed), seconds(local(10), wide(50, 0.001)));
  EXPECT_GT(seconds(local(10), mixed), seconds(local(10), wide(1000, 0.1)));
  EXPECT_LE(seconds(local(10), mixed), seconds(local(10), wide(50, 0.1)));
  EXPECT_EQ(mixed.slowest().bytes_per_second, 50 * kMbit);
  EXPECT_EQ(mixed.slowest().latency_seconds, 0.1);
  EXPECT_EQ(mixed.at_rate(25 * kMbit).inter_of[0].bytes_per_second, 500 * kMbit);
}

TEST(UnequalLinks, NeedOneOfEachNode) {
  Cluster two = wide();
  two.inter_of.assign(2, two.inter);
  EXPECT_TRUE(says(refusal_of([&] { seconds(local(10), two); }), {"2 nodes", "4 nodes"}));
}

TEST(Stragglers, CostLessWhereRanksMeetLessOften) {
  Work work = work_of();
  work.spread = 0.2;
  const auto lost = [&](const OptimizerConfig& config) {
    return seconds(config, wide(), work) - seconds(config);
  };
  const double each = lost(local(1)), rarely = lost(local(100)), late = lost(local(100, 1, 50));
  // The slowest of 4 normal times lies 1.03 deviations above the mean.
  EXPECT_NEAR(each, 1.03 * 0.02, 0.004);
  // After 100 steps the slowest is 10 deviations late, a tenth of that a step.
  EXPECT_NEAR(rarely, 1.03 * 0.002, 0.0006);
  EXPECT_LT(late, 0.3 * rarely);
  EXPECT_EQ(lost(local(1)), each) << "the same draws every time";
}

TEST(Stragglers, OneThatIsAlwaysSlowHoldsUpEverybody) {
  Work work = work_of();
  work.slowest = 1.5;
  for (const OptimizerConfig& config : {local(1), local(100), local(100, 1, 50)})
    EXPECT_NEAR(seconds(config, wide(), work) - seconds(config), 0.05, 1e-12);
}

TEST(Stragglers, AreRefusedWhereTheyCannotBe) {
  Work work = work_of();
  work.spread = 1.5;
  EXPECT_TRUE(says(refusal_of([&] { seconds(local(1), wide(), work); }), {"1.5", "0 to 1"}));
  work = work_of();
  work.slowest = 0.5;
  EXPECT_TRUE(says(refusal_of([&] { seconds(local(1), wide(), work); }), {"0.5", "at least 1"}));
}

}  // namespace
}  // namespace laconic::plan
