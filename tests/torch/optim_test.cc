#include "laconic/torch/optim.h"

#include <gtest/gtest.h>

#include <atomic>

#include "laconic/transport/faulty.h"
#include "tests/support/difference.h"
#include "tests/support/refusal.h"
#include "tests/torch/net.h"

namespace laconic::testing {
namespace {

class TorchOptim : public ::testing::TestWithParam<int> {
 protected:
  static void run(const std::function<void(Transport&)>& body) { run_ranks(GetParam(), body); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, TorchOptim, ::testing::ValuesIn(rank_counts()),
                         ::testing::PrintToStringParamName());

TEST_P(TorchOptim, ALoopOfLibTorchWithASchedulerGivesTheSameBits) {
  run([](Transport& world) {
    Replica by_begin(world, plain_config()), by_optim(world, plain_config());
    torch::Optim optimizer(by_optim.parallel, 0.02);
    ::torch::optim::StepLR scheduler(optimizer, 3, 0.5);
    ::torch::optim::Optimizer& as_torch_knows_it = optimizer;
    for (int t = 1; t <= 10; ++t) {
      by_begin.step(t, optimizer.param_groups()[0].options().get_lr());
      if (t % 2 == 0)
        optimizer.zero_grad();
      else
        as_torch_knows_it.zero_grad();
      loss_of(*by_optim.net, batch_of(t, world.rank())).backward();
      as_torch_knows_it.step();
      scheduler.step();
    }
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.0025);
    EXPECT_EQ(first_difference(weights_of(*by_optim.net), weights_of(*by_begin.net)), "");
  });
}

TEST_P(TorchOptim, AClosureRunsBeforeTheStep) {
  run([](Transport& world) {
    Replica replica(world, plain_config());
    torch::Optim optimizer(replica.parallel, 0.02);
    const ::torch::Tensor loss = optimizer.step([&] {
      const ::torch::Tensor value = loss_of(*replica.net, batch_of(1, world.rank()));
      value.backward();
      return value;
    });
    EXPECT_GT(loss.item<float>(), 0);
    EXPECT_EQ(replica.parallel.optimizer().totals().steps, 1);
    optimizer.step();  // without a gradient
    EXPECT_EQ(replica.parallel.optimizer().totals().steps, 2);
  });
}

TEST_P(TorchOptim, AccumulatesWhatItWasToldTo) {
  run([](Transport& world) {
    Replica by_begin(world, plain_config()), by_optim(world, plain_config());
    torch::Optim optimizer(by_optim.parallel, 0.02, 2);
    const auto two_passes = [&](Net& net) {
      for (int pass = 0; pass < 2; ++pass) loss_of(net, batch_of(pass, world.rank())).backward();
    };
    by_begin.parallel.begin(0.02, 2);
    two_passes(*by_begin.net);
    by_begin.parallel.step();
    two_passes(*by_optim.net);
    optimizer.step();
    EXPECT_EQ(first_difference(weights_of(*by_optim.net), weights_of(*by_begin.net)), "");
  });
}

TEST_P(TorchOptim, ArchivesAreRefusedWithTheRemedy) {
  run([](Transport& world) {
    Replica replica(world, plain_config());
    const torch::Optim optimizer(replica.parallel, 0.02);
    ::torch::serialize::OutputArchive archive;
    try {
      optimizer.save(archive);
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_TRUE(says(error.what(), {"laconic/checkpoint/checkpoint.h"}));
    }
  });
}

// Eight layers of one bucket each.
struct Deep : ::torch::nn::Module {
  Deep() {
    for (int i = 0; i < 8; ++i)
      layers.push_back(
          register_module("layer" + std::to_string(i),
                          ::torch::nn::Linear(::torch::nn::LinearOptions(8, 8).bias(false))));
    fill(*this, 1);
  }
  std::vector<::torch::nn::Linear> layers;
};

TEST_P(TorchOptim, BucketsAreExchangedWhileBackwardGoesOn) {
  if (GetParam() == 1) return;
  run([](Transport& world) {
    std::atomic<int> posted = 0;
    const auto watched = make_faulty(world, {.die_at = -1,
                                             .before_post =
                                                 [&](std::int64_t) {
                                                   ++posted;
                                                   posted.notify_all();
                                                 },
                                             .on_arrival = {}});
    const auto net = std::make_shared<Deep>();
    OptimizerConfig config = plain_config();
    config.bucket_elements = 64;
    torch::DataParallel parallel(net, {.optimizer = config, .groups = {}, .grouping = {}},
                                 *watched);
    EXPECT_EQ(parallel.optimizer().buckets(), 8);
    ::torch::Tensor x = ::torch::ones({1, 8});
    for (int i = 0; i < 8; ++i) {
      x = net->layers[static_cast<std::size_t>(i)](x);
      // Backward of the first layer waits, for ever if it must, until a bucket was posted.
      if (i == 0) x.register_hook([&](const ::torch::Tensor&) { posted.wait(0); });
    }
    const ::torch::Tensor loss = x.square().sum();
    parallel.begin(0.1);
    posted = 0;
    loss.backward();
    EXPECT_GT(posted, 0);
    parallel.step();
    EXPECT_TRUE(equal_on_all(world, weights_of(*net)));
  });
}

}  // namespace
}  // namespace laconic::testing
