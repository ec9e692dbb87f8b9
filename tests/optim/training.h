#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "laconic/optim/method.h"
#include "laconic/optim/optimizer.h"
#include "tests/support/ranks.h"

namespace laconic::testing {

// What the suite is run over.
struct Setting {
  std::string algorithm;
  int ranks, per_node;  // kFlat, or 2
};
void PrintTo(const Setting& setting, std::ostream* out);
std::vector<Setting> settings();
std::string name_of(const ::testing::TestParamInfo<Setting>& info);

// A method, or METHOD:OPTION=VALUE:OPTION=VALUE.
inline constexpr const char* kAlgorithms[] = {
    "sgdm",
    "adamw",
    "sgdm:codec=int8:feedback=full",
    "adamw:codec=int4:feedback=ema",
    "lamb",
    "lamb:codec=int8:feedback=ema",
    "one-bit-adam",
    "one-bit-adam:dense_codec=int8",
    "one-bit-lamb",
    "zero-one-adam",
    "zero-one-adam:dense_codec=int4",
    "birder",
    "lion",
    "distributed-lion",
    "distributed-lion:form=count:momentum_sync_every=4",
    "local-steps",
    "local-steps:inner=lion",
    "diloco:codec=sign:feedback=decay",
    "streaming-diloco",
    "sparse-loco",
};
// For names of tests.
std::string letters_of(std::string algorithm);

// The defaults under one of these names.
OptimizerConfig config_named(const std::string& algorithm);

// Every kind of step within kSteps steps. 0/1 Adam: variance steps 1, 2, 3, 5, 7; intervals of 1
// until 12, 2 until 16, then 4: syncs at 14, 16, 20, 24. 1-bit Adam freezes after 6. Local steps
// end after every 4th one; in fragments, each after 8, one every 2nd one, applied a step later.
inline constexpr std::int64_t kSteps = 25;
OptimizerConfig short_config(std::string algorithm, int ranks_per_node = kFlat);

// Three groups of 360 weights in 4 buckets of at most 128; the second group is not compressed.
std::vector<Group> three_groups();
inline constexpr std::size_t kElements = 360;

// In [-1, 1), from its arguments alone.
float noise(std::int64_t step, int rank, std::size_t element);

// One rank's model and optimizer, fed with gradients that follow from step, rank and element.
class Training {
 public:
  using GradientOf = std::function<float(std::int64_t step, int rank, std::size_t element)>;

  Training(const OptimizerConfig& config, Transport& world, std::vector<Group> groups = {},
           std::size_t elements = kElements, Model model = {});

  // Fills in the gradient of the next step.
  void compute();
  // Whole steps until `last` are taken; synchronize() is not called.
  void run_to(std::int64_t last);
  std::int64_t next() const { return optimizer->stats().step + 1; }

  Transport& world;
  std::vector<float> weights, gradient;
  std::unique_ptr<Optimizer> optimizer;
  GradientOf gradient_of;
  std::function<double(std::int64_t step)> lr;
};

// The bytes of the weights, the synced weights and everything in state(), by name.
std::map<std::string, std::string> bytes_of(const Training& training);
void expect_same(const std::map<std::string, std::string>& a,
                 const std::map<std::string, std::string>& b);

// The state of this name ("bucket0/m").
std::span<float> state_of(Optimizer& optimizer, const std::string& name);
bool all_finite(const Training& training);

// Collective.
bool equal_on_all(Transport& world, std::span<const float> values);
// Element after element, rank after rank.
std::vector<std::vector<float>> gathered(Transport& world, std::span<const float> values);

// Weights are equal on all ranks after this step.
bool synced(Optimizer& optimizer);

class OptimizerSuite : public ::testing::TestWithParam<Setting> {
 protected:
  static OptimizerConfig config() {
    return short_config(GetParam().algorithm, GetParam().per_node);
  }
  static std::string algorithm() { return GetParam().algorithm; }
  static const Method& method() { return method_named(config().algorithm); }
  // Its means are exact.
  static bool dense() { return method().exact_with(config()); }
  // The codec of its means is not exact.
  static bool lossy() { return !is_exact(method().codec_of(validated(config()))); }
  // It sends signs with activity, and keeps no residual.
  static bool signs() { return method().codec == "random-sign" || method().codec == kVote; }
  // Each rank moves its weights by its own gradient in every step.
  static bool alone() { return method().spacing != nullptr; }
  // Exchanges outlive their steps, so weights are equal after synchronize() only.
  static bool delayed() { return alone() && method().spacing(validated(config())).delay > 0; }
  // This step has lossy means.
  static bool codes(const StepStats& stats) {
    return stats.kind == "coded" ||
           (stats.kind == "dense" && config().dense_codec != GradientCodec::kFp32);
  }
  static void run(const std::function<void(Transport&)>& body) {
    run_ranks(GetParam().ranks, body);
  }
};

}  // namespace laconic::testing
