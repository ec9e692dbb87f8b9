#include "laconic/collective/switching.h"

#include <gtest/gtest.h>

#include "tests/support/means.h"

namespace laconic::testing {
namespace {

constexpr std::size_t kElements = 3000, kNone = 99;

// int4, int8, fp32, bf16, and on nodes int4 flat.
struct Switching {
  Switching(Transport& world, int per_node)
      : nodes(make_nodes(world, per_node)), flat(make_nodes(world, kFlat)) {
    paths = {{.name = "int4", .codec = "int4"},
             {.name = "int8", .codec = "int8", .prefix = path_prefix("int8", false)},
             {.name = "fp32", .codec = "fp32"},
             {.name = "bf16", .codec = "bf16"}};
    if (per_node > 1)
      paths.push_back(
          {.name = "int4 flat", .codec = "int4", .flat = true, .prefix = path_prefix("", true)});
    std::vector<std::unique_ptr<Mean>> means;
    for (const Path& path : paths)
      means.push_back(make_mean({.codec = path.codec, .elements = kElements, .quant_block = 64},
                                path.flat ? flat : nodes, *device));
    mean = std::make_unique<SwitchingMean>(paths, std::move(means), nodes, 4096);
  }

  std::unique_ptr<Device> device = make_host_device(1);
  Nodes nodes, flat;
  std::vector<Path> paths;
  std::unique_ptr<SwitchingMean> mean;
};

bool owes(Mean& mean) {
  for (const State& state : mean.state())
    if (state.role == Role::kResidual)
      for (const float value : state.values)
        if (value != 0) return true;
  return false;
}

class SwitchingOver : public ::testing::TestWithParam<int> {};

// Whatever the order of paths: all that was left out is in the sum once an exact exchange has run.
TEST_P(SwitchingOver, LosesNothingBetweenCodecs) {
  const int per_node = GetParam();
  run_ranks(4, [per_node](Transport& world) {
    Switching all(world, per_node);
    std::vector<double> sent(kElements), wanted(kElements);
    std::vector<std::size_t> order = {0, 0, 1, 1, 0, 0, 3, 0, 1, 2};
    if (per_node > 1) order.insert(order.begin() + 2, {4, 4, 4, 1, 1});
    std::size_t owing = kNone;  // the lossy path that was taken since the last exact one
    for (std::size_t i = 0; i < order.size(); ++i) {
      auto values = values_of(world.rank(), static_cast<int>(i), kElements);
      for (int rank = 0; rank < world.size(); ++rank) {
        const auto one = values_of(rank, static_cast<int>(i), kElements);
        for (std::size_t k = 0; k < kElements; ++k)
          wanted[k] += static_cast<double>(one[k]) / world.size();
      }
      const bool exactly = all.paths[order[i]].exact() || (owing != kNone && owing != order[i]);
      all.mean->use(order[i]);
      all.mean->reduce(values);
      EXPECT_EQ(all.mean->went_exactly(), exactly) << "exchange " << i;
      EXPECT_EQ(owes(*all.mean), !exactly) << "exchange " << i;
      for (std::size_t k = 0; k < kElements; ++k) sent[k] += values[k];
      owing = exactly ? kNone : order[i];
    }
    // bf16 rounds once by at most 2^-9; a residual that is lost or added twice is ten times that.
    for (std::size_t k = 0; k < kElements; ++k) ASSERT_NEAR(sent[k], wanted[k], 0.005) << k;
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, SwitchingOver, ::testing::Values(1, 2),
                         [](const auto& info) { return "nodes_of_" + std::to_string(info.param); });

TEST(Switching, NamesTheResidualsOfItsPaths) {
  run_ranks(4, [](Transport& world) {
    Switching all(world, 2);
    std::vector<std::string> names;
    for (const State& state : all.mean->state()) {
      EXPECT_EQ(state.role, Role::kResidual);
      EXPECT_EQ(role_of(state.name), Role::kResidual) << state.name;
      names.push_back(state.name);
    }
    EXPECT_EQ(names, (std::vector<std::string>{"worker_residual", "server_residual",
                                               "int8_worker_residual", "int8_server_residual",
                                               "flat_worker_residual", "flat_server_residual"}));
    EXPECT_EQ(role_of("flat_int4_worker_residual"), Role::kResidual);
    EXPECT_EQ(role_of("dense_worker_residual"), Role::kOther);
  });
}

}  // namespace
}  // namespace laconic::testing
