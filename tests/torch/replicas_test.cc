#include "laconic/torch/replicas.h"

#include <gtest/gtest.h>

#include "laconic/transport/faulty.h"
#include "tests/support/refusal.h"
#include "tests/support/thrown.h"
#include "tests/torch/net.h"

namespace laconic::testing {
namespace {

class Replicas : public ::testing::TestWithParam<int> {
 protected:
  static void run(const std::function<void(Transport&)>& body) { run_ranks(GetParam(), body); }
  // What is thrown on this rank when `net` is given.
  static std::string construction(Transport& world, std::shared_ptr<::torch::nn::Module> net) {
    return refusal_of([&] {
      torch::DataParallel({std::move(net)},
                          {.optimizer = plain_config(), .groups = {}, .grouping = {}}, world);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Replicas, ::testing::ValuesIn(rank_counts()),
                         ::testing::PrintToStringParamName());

// A norm, and weights that nobody trains.
struct Normed : ::torch::nn::Module {
  explicit Normed(int seed)
      : linear(register_module("linear", ::torch::nn::Linear(3, 3))),
        norm(register_module("norm", ::torch::nn::BatchNorm1d(3))),
        frozen(register_parameter("frozen", ::torch::empty({5}), false)),
        counts(register_buffer("counts", ::torch::empty({2, 2}, ::torch::kInt64))) {
    fill(*this, seed);
  }
  ::torch::nn::Linear linear;
  ::torch::nn::BatchNorm1d norm;
  ::torch::Tensor frozen, counts;
};

TEST_P(Replicas, ConstructionGivesEveryoneTheWeightsAndBuffersOfRankZero) {
  run([](Transport& world) {
    const auto net = std::make_shared<Normed>(world.rank());
    const void* place = net->frozen.data_ptr();
    const torch::DataParallel parallel(
        net, {.optimizer = plain_config(), .groups = {}, .grouping = {}}, world);
    const Normed wanted(0);
    EXPECT_EQ(weights_of(*net), weights_of(wanted));
    EXPECT_EQ(net->frozen.data_ptr(), place);
    for (const auto& buffer : net->named_buffers())
      EXPECT_TRUE(buffer.value().equal(wanted.named_buffers()[buffer.key()])) << buffer.key();
    EXPECT_EQ(parallel.ranges().size(), 4U);
  });
}

TEST_P(Replicas, BuffersBecomeTheirMeanAndCountsThoseOfRankZero) {
  run([](Transport& world) {
    const auto net = std::make_shared<Normed>(0);
    torch::DataParallel parallel(net, {.optimizer = plain_config(), .groups = {}, .grouping = {}},
                                 world);
    fill(*net, world.rank());
    parallel.average_buffers();
    ::torch::Tensor sum = ::torch::zeros({3}, ::torch::kFloat64);
    for (int r = 0; r < world.size(); ++r) sum += Normed(r).norm->running_var;
    EXPECT_TRUE(net->norm->running_var.equal((sum / world.size()).to(::torch::kFloat32)));
    EXPECT_TRUE(net->counts.equal(Normed(0).counts));
    EXPECT_TRUE(net->norm->num_batches_tracked.equal(Normed(0).norm->num_batches_tracked));
  });
}

TEST_P(Replicas, AnExceptionOfTorchOnOneRankEndsConstructionOnAllAndIsNoFileError) {
  run([](Transport& world) {
    const auto grouping = [&](const std::string&, const ::torch::Tensor& tensor) {
      if (world.rank() == world.size() - 1) tensor.reshape({-7});
      return std::size_t{0};
    };
    const auto error = thrown([&] {
      torch::DataParallel(
          std::make_shared<Net>(0),
          {.optimizer = plain_config(), .groups = {{.name = "all"}}, .grouping = grouping}, world);
    });
    expect_says(error, Code::kInternal, {"rank " + std::to_string(world.size() - 1), "-7"});
  });
}

TEST_P(Replicas, DifferentModelsAreRefusedOnEveryRankWithBothShapes) {
  if (GetParam() == 1) return;
  run([](Transport& world) {
    const bool last = world.rank() == world.size() - 1;
    const std::string who = "rank " + std::to_string(world.size() - 1);
    EXPECT_TRUE(says(construction(world, std::make_shared<Net>(0, last ? 15 : 16)),
                     {who, "parameter first.weight", "[15, 6]", "[16, 6]", "rank 0"}));
    const auto longer = std::make_shared<Net>(0);
    if (last) longer->register_parameter("extra", ::torch::zeros({2, 3}));
    EXPECT_TRUE(says(construction(world, longer), {who, "extra", "[2, 3]", "rank 0"}));
    const auto renamed = std::make_shared<::torch::nn::Module>();
    renamed->register_parameter(last ? "theirs" : "ours", ::torch::zeros({2}));
    EXPECT_TRUE(says(construction(world, renamed), {"theirs", "ours"}));
  });
}

TEST_P(Replicas, AModelThatOneRankCannotTrainIsRefusedOnEveryRank) {
  run([](Transport& world) {
    const auto net = std::make_shared<Net>(0);
    if (world.rank() == world.size() - 1) net->middle->to(::torch::kFloat64);
    EXPECT_TRUE(says(construction(world, net),
                     {"rank " + std::to_string(world.size() - 1), "middle.weight", "Double"}));
    EXPECT_TRUE(says(construction(world, nullptr), {"no module"}));
    const auto empty = std::make_shared<::torch::nn::Module>();
    EXPECT_TRUE(says(construction(world, empty), {"no parameter"}));
  });
}

TEST_P(Replicas, AModuleIsTrainedByOneAtATime) {
  run([](Transport& world) {
    Replica replica(world, plain_config());
    EXPECT_TRUE(says(construction(world, replica.net), {"first.weight", "another DataParallel"}));
  });
}

TEST_P(Replicas, AfterwardsTheModuleIsTheUsers) {
  run([](Transport& world) {
    auto replica = std::make_unique<Replica>(world, plain_config());
    replica->step(1);
    const std::shared_ptr<Net> net = replica->net;
    const std::vector<float> weights = weights_of(*net);
    replica.reset();
    EXPECT_EQ(weights_of(*net), weights);
    loss_of(*net, batch_of(1, 0)).backward();
    EXPECT_NE(net->first->weight.grad().abs().sum().item<float>(), 0);
    EXPECT_EQ(construction(world, net), "nothing was thrown");
  });
}

TEST_P(Replicas, AnErrorOfOneRankEndsTheOthersToo) {
  if (GetParam() == 1 || !ranks_are_threads()) return;
  run([](Transport& world) {
    const bool last = world.rank() == world.size() - 1;
    // One of its exchanges fails, on the thread of the queue.
    const auto faulty =
        make_faulty(world, {.die_at = last ? 60 : -1, .before_post = {}, .on_arrival = {}});
    Replica replica(*faulty, plain_config());
    const auto error = thrown([&] {
      for (int t = 1; t <= 20; ++t) replica.step(t);
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), last ? Code::kTransport : Code::kTimeout) << error->what();
  });
}

}  // namespace
}  // namespace laconic::testing
