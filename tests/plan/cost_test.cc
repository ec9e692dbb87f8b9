#include "laconic/plan/cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/refusal.h"

namespace laconic::plan {
namespace {

using testing::refusal_of;
using testing::says;

constexpr double kGbit = 1e9 / 8;

Cluster cluster_of(int nodes, int per_node, double gbit) {
  return {nodes, per_node, {gbit * kGbit, 20e-6}, {600 * kGbit, 3e-6}};
}

constexpr std::size_t kParameters = 30'000'001;
Work work_of(double step_seconds) {
  return {.parameters = kParameters, .step_seconds = step_seconds};
}

// Every kind of step on every topology.
std::vector<MethodStep> methods() {
  std::vector<MethodStep> all{{.topology = Topology::kAllReduce},
                              {.topology = Topology::kAllReduce, .bf16 = true},
                              {.algorithm = "zero-one-adam", .step = Step::Kind::kSilent}};
  for (const Topology topology : {Topology::kFlat, Topology::kNodes}) {
    all.push_back({.topology = topology});
    all.push_back({.algorithm = "sgdm", .topology = topology, .bf16 = true});
    for (const std::string algorithm : {"one-bit-adam", "zero-one-adam"})
      all.push_back({.algorithm = algorithm, .step = Step::Kind::kCoded, .topology = topology});
    for (const RandomForm form :
         {RandomForm::kTwoRound, RandomForm::kSingleRound, RandomForm::kCount})
      all.push_back(
          {.algorithm = "birder", .step = Step::Kind::kCoded, .topology = topology, .form = form});
  }
  return all;
}

// An exchange overlaps with the next one's where that is ready: a faster link may leave one fewer
// that does.
constexpr double kOverlaps = 1.0005;

class EveryMethod : public ::testing::TestWithParam<std::size_t> {
 protected:
  static MethodStep method() { return methods()[GetParam()]; }
  static double seconds(const Cluster& cluster, const Work& work, const Speeds& speeds = {}) {
    return predict(cluster, work, speeds, method()).seconds;
  }
  // Every bucket's exchange by itself.
  static double one_by_one(const Cluster& cluster) {
    double sum = 0;
    const std::size_t bucket = work_of(0).bucket_elements;
    for (std::size_t done = 0; done < kParameters; done += bucket)
      sum += seconds(cluster, {.parameters = std::min(bucket, kParameters - done)});
    return sum;
  }
};

TEST_P(EveryMethod, IsNeverSlowerOnFasterLinks) {
  for (const auto& [nodes, per_node] : {std::pair(2, 1), {4, 2}, {8, 8}}) {
    double inter = 1e9, intra = 1e9, latency = 1e9;
    for (double factor = 0.05; factor < 2000; factor *= 1.7) {
      Cluster cluster = cluster_of(nodes, per_node, factor);
      const double now = seconds(cluster, work_of(0.05));
      EXPECT_LE(now, inter * kOverlaps);
      inter = now;
      cluster = cluster_of(nodes, per_node, 10);
      cluster.intra.bytes_per_second = factor * kGbit;
      EXPECT_LE(seconds(cluster, work_of(0.05)), intra * kOverlaps);
      intra = seconds(cluster, work_of(0.05));
      cluster = cluster_of(nodes, per_node, 10);
      cluster.inter.latency_seconds = 1e-3 / factor;
      EXPECT_LE(seconds(cluster, work_of(0.05)), latency * kOverlaps);
      latency = seconds(cluster, work_of(0.05));
    }
  }
}

TEST_P(EveryMethod, LiesBetweenFullOverlapAndNone) {
  for (const bool shares_cores : {false, true})
    for (const double compute : {0.001, 0.05, 2.0})
      for (const double gbit : {0.1, 10.0, 400.0}) {
        const Cluster cluster = cluster_of(4, 2, gbit);
        Work work = work_of(compute), alone = work_of(0);
        work.shares_cores = shares_cores;
        const double step = seconds(cluster, work), exchange = seconds(cluster, alone);
        EXPECT_GE(step * (1 + 1e-12), std::max(compute, exchange));
        EXPECT_LE(step, (compute + one_by_one(cluster)) * (1 + 1e-12));
        if (!shares_cores) continue;  // cores do both
        EXPECT_GE(step * (1 + 1e-12), compute + predict(cluster, work, {}, method()).coding);
      }
}

TEST_P(EveryMethod, OnLinksWithoutLimitsIsComputeAndCoding) {
  Cluster cluster{4, 2, {}, {}};
  Speeds speeds;
  speeds.message = 0;
  const Forecast alone = predict(cluster, work_of(0), speeds, method());
  EXPECT_EQ(alone.exposed, 0);
  EXPECT_NEAR(alone.seconds, alone.coding, 1e-12);
  Work serial = work_of(0.5);
  serial.shares_cores = true;
  const Forecast shared = predict(cluster, serial, speeds, method());
  EXPECT_NEAR(shared.seconds, 0.5 + shared.coding, 1e-9);
  const Forecast with_nothing_to_code =
      predict(cluster, work_of(0.5), speeds.faster(1e9), method());
  EXPECT_NEAR(with_nothing_to_code.seconds, 0.5, 1e-6);
}

TEST_P(EveryMethod, SaysWhatFasterLinksWouldSave) {
  const Forecast slow = predict(cluster_of(4, 2, 0.1), work_of(0.01), {}, method());
  if (method().step == Step::Kind::kSilent) {
    EXPECT_EQ(slow.exposed, 0);
    return;
  }
  EXPECT_GT(slow.exposed, 0);
  EXPECT_LE(slow.exposed, slow.seconds);
  EXPECT_GE(slow.seconds * (1 + 1e-12), slow.inter_busy);
}

TEST_P(EveryMethod, OnNodesOfOneRankIsTheFlatForm) {
  if (method().topology == Topology::kAllReduce) return;  // has no such choice
  MethodStep flat = method(), nodes = method();
  flat.topology = Topology::kFlat;
  nodes.topology = Topology::kNodes;
  const Cluster cluster = cluster_of(6, 1, 5);
  const Forecast one = predict(cluster, work_of(0.1), {}, flat);
  const Forecast other = predict(cluster, work_of(0.1), {}, nodes);
  EXPECT_EQ(one.seconds, other.seconds);
  EXPECT_EQ(one.bytes_between, other.bytes_between);
}

TEST_P(EveryMethod, AloneSendsNothing) {
  const Forecast forecast = predict({}, work_of(0.1), {}, method());
  EXPECT_EQ(forecast.bytes_inside + forecast.bytes_between, 0);
  EXPECT_GE(forecast.seconds, 0.1);
}

INSTANTIATE_TEST_SUITE_P(All, EveryMethod, ::testing::Range(std::size_t{0}, methods().size()));

TEST(Forecast, OfOneBucketWithoutSlicesIsTheSumOfItsParts) {
  // 65,536 elements over 2 ranks: one slice, chunk 32,768, so nothing overlaps.
  constexpr double kElements = 65'536, kChunk = kElements / 2, kRate = 1e6, kLatency = 0.01;
  const Cluster cluster{2, 1, {kRate, kLatency}, {}};
  Speeds speeds;
  speeds.message = 1e-3;
  const double message = 4 * kChunk / kRate + kLatency;
  const double coding = kElements * (speeds.copy + speeds.methods.at("adamw").exact.after) +
                        kChunk * 2 * speeds.add_values;
  const Work work{.parameters = 65'536, .step_seconds = 1};
  EXPECT_NEAR(predict(cluster, work, speeds, {}).seconds,
              1 + coding + 2 * (message + speeds.message), 1e-9);
}

TEST(Forecast, UsesTheTimesAtWhichBucketsAreReady) {
  Work work{.parameters = 1'000'000, .step_seconds = 1, .bucket_elements = 500'000};
  const Cluster slow = cluster_of(2, 1, 0.1);
  const double even = predict(slow, work, {}, {}).seconds;
  work.ready = {1, 1};
  const double late = predict(slow, work, {}, {}).seconds;
  work.ready = {0, 0};
  EXPECT_LT(predict(slow, work, {}, {}).seconds, even);
  EXPECT_LT(even, late);
}

TEST(Forecast, CountsACardForAllRanksOfItsNode) {
  const MethodStep coded{.algorithm = "one-bit-adam", .step = Step::Kind::kCoded};
  const Forecast one = predict(cluster_of(4, 1, 0.01), work_of(0), {}, coded);
  const Forecast eight = predict(cluster_of(4, 8, 0.01), work_of(0), {}, coded);
  EXPECT_NEAR(eight.inter_busy, 8 * eight.bytes_between / (0.01 * kGbit), 1e-9);
  EXPECT_GT(eight.seconds, 7 * one.seconds);
}

TEST(Average, IsOfTheStepsInTheirProportions) {
  const Cluster cluster = cluster_of(4, 2, 1);
  const MethodStep method{.algorithm = "zero-one-adam", .topology = Topology::kNodes};
  const Average all =
      predict(cluster, work_of(0.1), {}, method, {.steps = 10, .dense = 1, .coded = 3});
  EXPECT_NEAR(all.dense_share + all.coded_share + all.silent_share, 1, 1e-12);
  EXPECT_NEAR(all.mean.seconds,
              0.1 * all.dense.seconds + 0.3 * all.coded.seconds + 0.6 * all.silent.seconds, 1e-12);
  EXPECT_NEAR(all.mean.bytes_between, 0.1 * all.dense.bytes_between + 0.3 * all.coded.bytes_between,
              1e-3);
  EXPECT_LT(all.coded.bytes_between, all.dense.bytes_between / 25);
}

TEST(BreakEven, IsWhereBothTakeEquallyLong) {
  const Work work = work_of(0.05);
  const auto time = [&](const MethodStep& method) {
    return [&work, method](const Cluster& at) { return predict(at, work, {}, method).seconds; };
  };
  const auto dense = time({.topology = Topology::kAllReduce, .bf16 = true});
  const auto coded =
      time({.algorithm = "one-bit-adam", .step = Step::Kind::kCoded, .topology = Topology::kNodes});
  Cluster cluster = cluster_of(8, 2, 1);
  const double rate = break_even(cluster, coded, dense);
  ASSERT_GT(rate, kLowestRate);
  ASSERT_LT(rate, kHighestRate);
  cluster.inter.bytes_per_second = rate;
  EXPECT_LE(coded(cluster), dense(cluster));
  cluster.inter.bytes_per_second = 1.02 * rate;
  EXPECT_GT(coded(cluster), dense(cluster));
  EXPECT_EQ(break_even(cluster, dense, dense), std::numeric_limits<double>::infinity());
  EXPECT_EQ(break_even(
                cluster, [](const Cluster&) { return 2.0; }, [](const Cluster&) { return 1.0; }),
            0);
}

TEST(Memory, IsThatOfTheTableOfOptimizers) {
  const Work work{.parameters = 1000};
  const auto bytes = [&](std::string algorithm, Topology topology) {
    return memory_bytes(cluster_of(2, 2, 1), work, {.algorithm = algorithm, .topology = topology});
  };
  EXPECT_EQ(bytes("sgdm", Topology::kFlat), 12'000);
  EXPECT_EQ(bytes("adamw", Topology::kAllReduce), 16'000);
  EXPECT_EQ(bytes("one-bit-adam", Topology::kFlat), (8 + 12 + 1) * 1000);
  EXPECT_EQ(bytes("one-bit-adam", Topology::kNodes), (8 + 10 + 1) * 1000);
  EXPECT_EQ(bytes("zero-one-adam", Topology::kFlat), (8 + 16 + 1) * 1000);
  EXPECT_EQ(bytes("birder", Topology::kFlat), 16'000);
  const auto with_dense_codec = [&](std::string codec) {
    return memory_bytes(cluster_of(2, 2, 1), work,
                        {.algorithm = "zero-one-adam", .dense_codec = codec});
  };
  EXPECT_EQ(with_dense_codec("bf16"), (8 + 16 + 1) * 1000);
  EXPECT_EQ(with_dense_codec("int4"), (8 + 16 + 1 + 4 + 1) * 1000);
}

TEST(DenseCodec, IsWhatDenseStepsCost) {
  const Work work{.parameters = 1 << 18};
  const Rounds rounds{.steps = 4, .dense = 1, .coded = 3};
  const auto average = [&](std::string codec) {
    return predict(cluster_of(4, 1, 1), work, {},
                   {.algorithm = "one-bit-adam", .dense_codec = codec}, rounds);
  };
  const auto fp32 = average(""), int8 = average("int8");
  const double chunk = (1 << 18) / 4;
  EXPECT_EQ(int8.dense.bytes_between, 2 * 3 * (chunk + 4 * chunk / 256 + 16));
  EXPECT_EQ(int8.coded.bytes_between, fp32.coded.bytes_between);
  EXPECT_LT(int8.mean.seconds, fp32.mean.seconds);
}

TEST(Clusters, ThatCannotExistAreRefusedWithAnExample) {
  const auto refusal = [](Cluster cluster, const Work& work) {
    return refusal_of([&] { predict(cluster, work, {}, {}); });
  };
  const Work work = work_of(0.1);
  EXPECT_TRUE(says(refusal(cluster_of(0, 8, 1), work), {"0 nodes of 8", "8 nodes of 8"}));
  EXPECT_TRUE(says(refusal(cluster_of(8, 0, 1), work), {"8 nodes of 0", "8 nodes of 8"}));
  EXPECT_TRUE(says(refusal(cluster_of(60'000, 2, 1), work), {"65535"}));
  EXPECT_TRUE(says(refusal(cluster_of(2, 2'000, 1), work), {"1024"}));
  EXPECT_TRUE(says(refusal(cluster_of(2, 1, -1), work), {"-1", "above 0", "10gbit,20us"}));
  EXPECT_TRUE(says(refusal(cluster_of(2, 1, NAN), work), {"nan", "10gbit,20us"}));
  Cluster backwards = cluster_of(2, 1, 1);
  backwards.intra.latency_seconds = -1;
  EXPECT_TRUE(says(refusal(backwards, work), {"inside a node", "10gbit,20us"}));
  const Cluster good = cluster_of(2, 1, 1);
  EXPECT_TRUE(says(refusal(good, {.parameters = 0}), {"0 parameters", "110000000"}));
  EXPECT_TRUE(says(refusal(good, work_of(-1)), {"-1 s", "0.09"}));
  EXPECT_TRUE(says(refusal(good, {.parameters = 5, .backward_share = 2}), {"2", "0 to 1"}));
  EXPECT_TRUE(
      says(refusal(good, {.parameters = 5, .ready = {1, 1}}), {"2 ready times", "1 buckets"}));
  EXPECT_TRUE(says(refusal_of([&] { predict(good, work, {}, {}, Rounds{}); }), {"0 steps"}));
}

}  // namespace
}  // namespace laconic::plan
