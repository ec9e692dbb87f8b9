#include <gtest/gtest.h>

#include "laconic/device/host.h"
#include "laconic/optim/optimizer.h"
#include "laconic/plan/cost.h"
#include "laconic/transport/metered.h"
#include "tests/support/means.h"

// What the cost model says is sent, beside what is sent.
namespace laconic::testing {
namespace {

plan::MethodStep method_of(const Setting& setting, plan::Topology topology) {
  const MeanConfig& config = setting.sort.config;
  plan::MethodStep method{.topology = topology,
                          .bf16 = config.codec == "bf16",
                          .form = config.form,
                          .scale_block = config.scale_block,
                          .quant_block = config.quant_block,
                          .codec_down = config.codec_down,
                          .top_k = config.top_k,
                          .update = false};
  if (setting.sort.exact()) return method;
  method.step = Step::Kind::kCoded;
  if (setting.sort.votes()) {
    method.algorithm = "distributed-lion";
    return method;
  }
  if (!setting.sort.random() && !setting.sort.one_bit()) {
    method.algorithm = "adamw";
    method.codec = config.codec;
    return method;
  }
  method.algorithm = setting.sort.random() ? "birder" : "one-bit-adam";
  return method;
}

class ForecastBytes : public MeanTest {
 protected:
  // Ranks sit on nodes of per_node; the mean knows it or is flat.
  static void expect_as_metered(plan::Topology topology) {
    const plan::Cluster cluster{
        .nodes = setting().nodes(), .per_node = setting().per_node, .inter = {}, .intra = {}};
    run_ranks(setting().ranks, [&](Transport& world) {
      for (const std::size_t elements : {1UL, 4097UL, 65536UL, 700001UL}) {
        SCOPED_TRACE(elements);
        Traffic traffic;
        const auto metered = make_metered(world, traffic, setting().per_node);
        const Nodes nodes =
            make_nodes(*metered, topology == plan::Topology::kFlat ? kFlat : setting().per_node);
        HostDevice device(1);
        const auto mean = make_mean(setting().config(elements), nodes, device);
        const auto values = values_of(world.rank(), 0, elements);
        std::vector<float> means(elements);
        traffic = {};
        mean->exchange(Values{values.data(), true}, Store{means.data()}, {});
        const auto forecast =
            plan::predict(cluster, {.parameters = elements, .bucket_elements = elements}, {},
                          method_of(setting(), topology));
        EXPECT_EQ(forecast.bytes_inside, static_cast<double>(traffic.total().bytes_inside));
        EXPECT_EQ(forecast.bytes_between, static_cast<double>(traffic.total().bytes_between));
      }
    });
  }
};

TEST_P(ForecastBytes, AreThoseOfTheMeteredMean) {
  expect_as_metered(plan::Topology::kNodes);
  expect_as_metered(plan::Topology::kFlat);
}

INSTANTIATE_TEST_SUITE_P(All, ForecastBytes, ::testing::ValuesIn(settings(all_sorts())), name_of);

// docs/explanation/algorithms.md, for a length that divides: 2·(n−1)·M(c) and 2·(n−1)·4c.
TEST(ForecastOf, OneBitAndDenseIsAsTheFormulasSay) {
  constexpr double kElements = 1 << 18, kRanks = 8, kChunk = kElements / kRanks;
  const plan::Cluster cluster{.nodes = 8, .per_node = 1, .inter = {}, .intra = {}};
  const plan::Work work{.parameters = 1 << 18};
  EXPECT_EQ(plan::predict(cluster, work, {}, {}).bytes_between, 2 * (kRanks - 1) * 4 * kChunk);
  const double message = kChunk / 8 + 4 * kChunk / 4096;
  const auto coded =
      plan::predict(cluster, work, {}, {.algorithm = "one-bit-adam", .step = Step::Kind::kCoded});
  constexpr double kHeader = 16;
  EXPECT_EQ(coded.bytes_between, 2 * (kRanks - 1) * (message + kHeader));
}

// Lion Cub: on some steps the momenta travel beside the votes, in eight bits.
TEST(ForecastOf, AverageMomentaAreCounted) {
  constexpr std::size_t kWeights = 50'001, kBucket = 20'000;
  constexpr int kEvery = 3, kSteps = 30;
  for (const int per_node : {1, 2}) {
    const plan::Cluster cluster{
        .nodes = 4 / per_node, .per_node = per_node, .inter = {}, .intra = {}};
    const OptimizerConfig config{.algorithm = "distributed-lion",
                                 .momentum_sync_every = kEvery,
                                 .ranks_per_node = per_node == 1 ? kFlat : per_node,
                                 .bucket_elements = kBucket};
    const Rounds rounds = method_named(config.algorithm).rounds(config, kSteps);
    EXPECT_EQ(rounds.momentum, kSteps / kEvery);
    const plan::Work work{.parameters = kWeights, .bucket_elements = kBucket};
    const plan::MethodStep method{.algorithm = config.algorithm,
                                  .topology = plan::Topology::kNodes};
    const plan::Average all = plan::predict(cluster, work, {}, method, rounds);
    run_ranks(4, [&](Transport& world) {
      std::vector<float> weights(kWeights, 1.0F), gradient = values_of(world.rank(), 0, kWeights);
      const auto optimizer = make_optimizer(
          config, {.weights = weights, .gradient = gradient, .groups = {}, .ranges = {}}, world);
      for (int t = 0; t < kEvery; ++t) optimizer->step(1e-3);  // the first also compares weights
      double inside = 0, between = 0;
      for (int t = 0; t < kEvery; ++t) {
        optimizer->step(1e-3);
        inside += static_cast<double>(optimizer->stats().bytes_inside);
        between += static_cast<double>(optimizer->stats().bytes_between);
      }
      EXPECT_NEAR(kEvery * all.mean.bytes_inside, inside, 1e-6 * inside);
      EXPECT_NEAR(kEvery * all.mean.bytes_between, between, 1e-6 * between);
      EXPECT_NEAR(kEvery * all.coded.bytes_between, between, 1e-6 * between);
    });
  }
}

// Several buckets, the last of them short.
TEST(ForecastOf, AStepHasTheBytesThatAnOptimizerReports) {
  constexpr std::size_t kWeights = 50'001, kBucket = 20'000;
  for (const std::string algorithm :
       {"adamw", "one-bit-adam", "birder", "distributed-lion", "one-bit-adam+int4"})
    for (const int per_node : {1, 2}) {
      const bool dense_codec = algorithm.ends_with("+int4");
      const std::string method = algorithm.substr(0, algorithm.find('+'));
      SCOPED_TRACE(fmt::format("{}, {} a node", algorithm, per_node));
      const plan::Cluster cluster{
          .nodes = 4 / per_node, .per_node = per_node, .inter = {}, .intra = {}};
      run_ranks(4, [&](Transport& world) {
        std::vector<float> weights(kWeights, 1.0F), gradient = values_of(world.rank(), 0, kWeights);
        const auto optimizer = make_optimizer(
            {.algorithm = method,
             .freeze_step = dense_codec ? 2 : 1,
             .dense_codec = dense_codec ? GradientCodec::kInt4 : GradientCodec::kFp32,
             .ranks_per_node = per_node == 1 ? kFlat : per_node,
             .bucket_elements = kBucket},
            {.weights = weights, .gradient = gradient, .groups = {}, .ranges = {}}, world);
        optimizer->step(1e-3);
        for (int t = 0; t < 2; ++t) {
          const StepStats& stats = optimizer->stats();
          const auto forecast = plan::predict(
              cluster, {.parameters = kWeights, .bucket_elements = kBucket}, {},
              {.algorithm = method,
               .step = stats.kind == "dense" ? Step::Kind::kDense : Step::Kind::kCoded,
               .topology = plan::Topology::kNodes,
               .dense_codec = dense_codec ? "int4" : ""});
          // The first step also compares the ranks' weights.
          if (t > 0) {
            EXPECT_EQ(forecast.bytes_inside, static_cast<double>(stats.bytes_inside));
            EXPECT_EQ(forecast.bytes_between, static_cast<double>(stats.bytes_between));
          }
          optimizer->step(1e-3);
        }
      });
    }
}

}  // namespace
}  // namespace laconic::testing
