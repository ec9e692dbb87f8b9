#include <gtest/gtest.h>

#include "tests/support/difference.h"
#include "tests/support/refusal.h"
#include "tests/torch/net.h"

namespace laconic::testing {
namespace {

// What a step does, by hand: gradients are copied to flat memory, weights from there.
std::vector<float> trained_by_hand(Transport& world, const OptimizerConfig& config, int steps) {
  Net net(0);
  std::vector<float> weights = weights_of(net), gradient(weights.size());
  std::vector<NamedRange> tensors;
  for (const auto& p : net.named_parameters())
    tensors.push_back({p.key(), tensors.empty() ? 0 : tensors.back().begin + tensors.back().count,
                       static_cast<std::size_t>(p.value().numel())});
  const auto optimizer = make_optimizer(config, {weights, gradient, {}, tensors}, world);
  for (int t = 1; t <= steps; ++t) {
    const ::torch::Tensor loss = loss_of(net, batch_of(t, world.rank()));
    std::size_t at = 0;
    for (const auto& g : ::torch::autograd::grad({loss}, net.parameters())) {
      std::copy_n(g.contiguous().data_ptr<float>(), g.numel(), &gradient[at]);
      at += static_cast<std::size_t>(g.numel());
    }
    optimizer->step(0.01);
    const ::torch::NoGradGuard no_grad;
    at = 0;
    for (auto& p : net.parameters()) {
      std::copy_n(&weights[at], p.numel(), p.data_ptr<float>());
      at += static_cast<std::size_t>(p.numel());
    }
  }
  return weights;
}

class TorchSuite : public OptimizerSuite {};

TEST_P(TorchSuite, GivesTheBitsOfALoopByHand) {
  run([&](Transport& world) {
    Replica replica(world, config());
    for (int t = 1; t <= kSteps; ++t) replica.step(t);
    EXPECT_EQ(first_difference(weights_of(*replica.net), trained_by_hand(world, config(), kSteps)),
              "");
  });
}

TEST_P(TorchSuite, ReplicasAreEqualAfterSynchronize) {
  run([&](Transport& world) {
    Replica replica(world, config());
    for (int t = 1; t < kSteps; ++t) replica.step(t);
    replica.parallel.optimizer().synchronize();
    EXPECT_TRUE(equal_on_all(world, weights_of(*replica.net)));
  });
}

TEST_P(TorchSuite, SyncedShowsTheWeightsOfTheLastSyncAndGivesBackTheRanksOwn) {
  run([&](Transport& world) {
    Replica replica(world, config());
    for (int t = 1; t <= 18; ++t) replica.step(t);
    const std::vector<float> own = weights_of(*replica.net);
    const bool equal = equal_on_all(world, own);
    EXPECT_TRUE(equal || !synced(replica.parallel.optimizer()));
    EXPECT_FALSE(equal && method().name == "zero-one-adam" && world.size() > 1);
    {
      const torch::DataParallel::Synced synced(replica.parallel);
      EXPECT_TRUE(equal_on_all(world, weights_of(*replica.net)));
      EXPECT_TRUE(says(refusal_of([&] { replica.parallel.begin(0.1); }), {"Synced"}));
    }
    EXPECT_EQ(first_difference(weights_of(*replica.net), own), "");
    replica.step(19);
  });
}

INSTANTIATE_TEST_SUITE_P(Every, TorchSuite, ::testing::ValuesIn(settings()), name_of);

class Torch : public ::testing::TestWithParam<int> {
 protected:
  static void run(const std::function<void(Transport&)>& body) { run_ranks(GetParam(), body); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Torch, ::testing::ValuesIn(rank_counts()),
                         ::testing::PrintToStringParamName());

TEST_P(Torch, EqualsAdamWOfTorchOnTheBigBatch) {
  run([](Transport& world) {
    OptimizerConfig config = plain_config();
    config.weight_decay = 0.1;
    Replica replica(world, config);
    Net big(0);
    ::torch::optim::AdamW adamw(
        big.parameters(),
        ::torch::optim::AdamWOptions(0.01).betas({config.beta1, config.beta2}).weight_decay(0.1));
    for (int t = 1; t <= 20; ++t) {
      replica.step(t);
      std::vector<::torch::Tensor> x, y;
      for (int r = 0; r < world.size(); ++r) {
        x.push_back(batch_of(t, r).x);
        y.push_back(batch_of(t, r).y);
      }
      adamw.zero_grad();
      loss_of(big, {::torch::cat(x), ::torch::cat(y)}).backward();
      adamw.step();
    }
    const std::vector<float> has = weights_of(*replica.net), wanted = weights_of(big);
    for (std::size_t k = 0; k < has.size(); ++k) ASSERT_NEAR(has[k], wanted[k], 1e-6) << k;
  });
}

TEST_P(Torch, GradientsThatTheUserDroppedComeBackAndCountRight) {
  run([](Transport& world) {
    Replica kept(world, plain_config()), dropped(world, plain_config());
    for (int t = 1; t <= 6; ++t) {
      kept.step(t);
      dropped.net->zero_grad(t % 2 == 0);
      dropped.step(t);
      dropped.net->first->weight.mutable_grad() = ::torch::Tensor();
    }
    EXPECT_EQ(first_difference(weights_of(*dropped.net), weights_of(*kept.net)), "");
    kept.parallel.zero_grad();
    EXPECT_TRUE(kept.net->first->weight.grad().defined());
  });
}

TEST_P(Torch, AccumulatedPassesCountAsTheirMean) {
  run([](Transport& world) {
    Replica whole(world, plain_config()), pieces(world, plain_config());
    for (int t = 1; t <= 5; ++t) {
      const Batch batch = batch_of(t, world.rank());
      pieces.parallel.begin(0.01, 4);
      for (int piece = 0; piece < 4; ++piece)
        loss_of(*pieces.net, {batch.x.slice(0, 2 * piece, 2 * piece + 2),
                              batch.y.slice(0, 2 * piece, 2 * piece + 2)})
            .backward();
      pieces.parallel.step();
      whole.step(t);
    }
    const std::vector<float> has = weights_of(*pieces.net), wanted = weights_of(*whole.net);
    for (std::size_t k = 0; k < has.size(); ++k) ASSERT_NEAR(has[k], wanted[k], 1e-6) << k;
  });
}

TEST_P(Torch, BeginAfterBackwardGivesTheSameBits) {
  run([](Transport& world) {
    Replica before(world, plain_config()), after(world, plain_config());
    for (int t = 1; t <= 3; ++t) {
      before.step(t);
      loss_of(*after.net, batch_of(t, world.rank())).backward();
      after.parallel.begin(0.01);
      after.parallel.step();
    }
    EXPECT_EQ(first_difference(weights_of(*after.net), weights_of(*before.net)), "");
  });
}

TEST_P(Torch, ParametersWithoutAGradientInAStepCountAsZero) {
  run([](Transport& world) {
    OptimizerConfig config = short_config("sgdm");
    config.momentum = config.weight_decay = 0;
    Replica replica(world, config);
    const ::torch::Tensor before = replica.net->middle->weight.detach().clone();
    const ::torch::Tensor last = replica.net->last->weight.detach().clone();
    replica.parallel.begin(0.1);
    const Batch batch = batch_of(1, world.rank());
    ::torch::mse_loss(replica.net->last(::torch::tanh(replica.net->first(batch.x))), batch.y)
        .backward();
    replica.parallel.step();
    EXPECT_TRUE(replica.net->middle->weight.equal(before));
    EXPECT_FALSE(replica.net->last->weight.equal(last));
    EXPECT_TRUE(equal_on_all(world, weights_of(*replica.net)));
  });
}

TEST_P(Torch, GroupsHaveTheirOwnSettingsAndLieOneAfterTheOther) {
  run([](Transport& world) {
    OptimizerConfig config = short_config("sgdm");
    config.momentum = 0;
    const auto net = std::make_shared<Net>(world.rank());
    torch::DataParallel parallel(
        net,
        {.optimizer = config,
         .groups = {{.name = "weights"}, {.name = "biases", .lr_factor = 0, .compress = false}},
         .grouping = [](const std::string&, const ::torch::Tensor& p) { return p.dim() == 1; }},
        world);
    const Model& model = parallel.optimizer().model();
    EXPECT_EQ(model.groups[0].elements, 416U);
    EXPECT_EQ(model.groups[1].elements, 36U);
    EXPECT_EQ(parallel.ranges()[3].name, "first.bias");
    EXPECT_EQ(parallel.ranges()[3].begin, 416U);
    EXPECT_EQ(net->first->bias.data_ptr<float>(), model.weights.data() + 416);
    const ::torch::Tensor bias = net->last->bias.detach().clone();
    parallel.begin(0.1);
    loss_of(*net, batch_of(1, world.rank())).backward();
    parallel.step();
    EXPECT_TRUE(net->last->bias.equal(bias));
  });
}

TEST_P(Torch, StepsThatCannotBeAreRefused) {
  run([](Transport& world) {
    Replica replica(world, plain_config());
    const auto backward = [&] { loss_of(*replica.net, batch_of(1, world.rank())).backward(); };
    backward();
    EXPECT_TRUE(says(refusal_of([&] { replica.parallel.step(); }), {"begin(lr)"}));
    EXPECT_TRUE(says(refusal_of([&] { replica.parallel.begin(0.1, 0); }), {"0 backward passes"}));
    replica.parallel.zero_grad();
    replica.parallel.begin(0.1);
    EXPECT_TRUE(says(refusal_of([&] { replica.parallel.average_buffers(); }), {"step()"}));
    EXPECT_TRUE(says(refusal_of([&] { torch::DataParallel::Synced(replica.parallel); }), {"step"}));
    backward();
    EXPECT_TRUE(says(refusal_of([&] { replica.parallel.zero_grad(); }), {"step()"}));
    EXPECT_TRUE(says(refusal_of(backward), {"2 gradients", "1 backward pass", "accumulate"}));
    replica.parallel.step();
  });
}

// Ordinary programs.

TEST_P(TorchSuite, ALayerThatIsFrozenInTheMiddleStays) {
  run([&](Transport& world) {
    Replica replica(world, config());
    for (int t = 1; t <= 6; ++t) replica.step(t);
    replica.parallel.optimizer().synchronize();
    for (auto& p : replica.net->middle->parameters()) p.requires_grad_(false);
    const ::torch::Tensor frozen = replica.net->middle->weight.clone();
    for (int t = 7; t <= 16; ++t) replica.step(t);
    EXPECT_TRUE(frozen.equal(replica.net->middle->weight));
    for (auto& p : replica.net->middle->parameters()) p.requires_grad_(true);
    for (int t = 17; t <= kSteps; ++t) replica.step(t);
    EXPECT_FALSE(frozen.equal(replica.net->middle->weight));
    replica.parallel.optimizer().synchronize();
    EXPECT_TRUE(equal_on_all(world, weights_of(*replica.net)));
  });
}

TEST_P(TorchSuite, WeightsWrittenByHandAfterASyncCount) {
  run([&](Transport& world) {
    Replica replica(world, config());
    for (int t = 1; t <= 20; ++t) replica.step(t);
    replica.parallel.optimizer().synchronize();
    {
      const ::torch::NoGradGuard no_grad;
      replica.net->last->weight.fill_(2.0);
    }
    for (int t = 21; t <= 24; ++t) replica.step(t, 0.001);
    EXPECT_TRUE(::torch::allclose(replica.net->last->weight,
                                  ::torch::full_like(replica.net->last->weight, 2.0), 0, 0.1));
  });
}

TEST(DataParallel, NoticesThatAParameterWasReplaced) {
  run_ranks(rank_counts().front(), [](Transport& world) {
    Replica replica(world, plain_config());
    replica.step(1);
    replica.net->to(::torch::kFloat64);
    EXPECT_TRUE(says(refusal_of([&] { replica.parallel.begin(0.01); }),
                     {"first.weight", "Double", "before it is given to DataParallel"}));
    replica.net->to(::torch::kFloat32);  // memory of its own now
    const ::torch::Tensor before = replica.net->first->weight.clone();
    replica.step(2);
    EXPECT_FALSE(before.equal(replica.net->first->weight));
    EXPECT_EQ(replica.net->first->weight.data_ptr(),
              replica.parallel.optimizer().model().weights.data());
  });
}

}  // namespace
}  // namespace laconic::testing
