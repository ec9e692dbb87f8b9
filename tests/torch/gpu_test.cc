#include <gtest/gtest.h>

#include <optional>

#include "laconic/checkpoint/checkpoint.h"
#include "laconic/torch/device.h"
#include "laconic/torch/replicas.h"
#include "tests/checkpoint/scratch.h"
#include "tests/support/difference.h"
#include "tests/support/refusal.h"
#include "tests/torch/emulated_backend.h"
#include "tests/torch/net.h"

// Modules in memory of a device, as on a GPU: torch's operations on streams of its own, the
// optimizer's on the emulated device. The weights are those of the same module on the CPU.
namespace laconic::testing {
namespace {

std::vector<Setting> few_settings() {
  std::vector<Setting> few;
  for (const Setting& one : settings())
    for (const char* name : {"adamw", "adamw:codec=int4:feedback=ema", "lamb", "one-bit-adam",
                             "zero-one-adam", "birder", "streaming-diloco"})
      if (one.algorithm == name && one.ranks <= 2 && one.per_node == kFlat) few.push_back(one);
  return few;
}

std::vector<int> few_ranks() {
  std::vector<int> few = rank_counts();
  std::erase_if(few, [](int ranks) { return ranks > 2; });
  return few;
}

// Rank 0 on torch's default stream, the others on one of their own.
struct ChosenStream {
  explicit ChosenStream(const Transport& world) {
    if (world.rank() > 0) own.emplace();
  }
  std::optional<OwnStream> own;
};

class TorchOnGpu : public OptimizerSuite {};
INSTANTIATE_TEST_SUITE_P(Few, TorchOnGpu, ::testing::ValuesIn(few_settings()), name_of);

TEST_P(TorchOnGpu, EndsWithTheBitsOfTheCpu) {
  run([](Transport& world) {
    const ChosenStream stream(world);
    Replica cpu(world, config()), gpu(world, config(), emulated_device());
    for (int t = 1; t <= kSteps; ++t) {
      cpu.step(t);
      gpu.step(t);
    }
    EXPECT_EQ(first_difference(weights_of(*gpu.net), weights_of(*cpu.net)), "");
    {
      const torch::DataParallel::Synced of_gpu(gpu.parallel), of_cpu(cpu.parallel);
      EXPECT_EQ(first_difference(weights_of(*gpu.net), weights_of(*cpu.net)), "");
    }
    for (Replica* one : {&cpu, &gpu}) one->parallel.optimizer().synchronize();
    EXPECT_EQ(first_difference(weights_of(*gpu.net), weights_of(*cpu.net)), "");
    EXPECT_NE(gpu.parallel.optimizer().describe().find("on emulated"), std::string::npos);
  });
}

class OnGpu : public ::testing::TestWithParam<int> {
 protected:
  static void run(const std::function<void(Transport&)>& body) { run_ranks(GetParam(), body); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, OnGpu, ::testing::ValuesIn(few_ranks()),
                         ::testing::PrintToStringParamName());

// Gradients that lie elsewhere, are dropped, accumulated, or missing in a step.
TEST_P(OnGpu, GradientsAreCollectedAsOnTheCpu) {
  run([](Transport& world) {
    const ChosenStream stream(world);
    Replica cpu(world, plain_config()), gpu(world, plain_config(), emulated_device());
    for (Replica* one : {&cpu, &gpu})
      for (int t = 1; t <= 6; ++t) {
        const ::torch::Device device = one->net->first->weight.device();
        const Batch batch = batch_of(t, world.rank());
        const ::torch::Tensor x = batch.x.to(device), y = batch.y.to(device);
        one->net->zero_grad(t % 2 == 0);
        one->parallel.begin(0.01, 2);
        loss_of(*one->net, {x, y}).backward();
        if (t % 3 == 0)  // without the layer in the middle
          ::torch::mse_loss(one->net->last(::torch::tanh(one->net->first(x))), y).backward();
        else
          loss_of(*one->net, {y.new_zeros(x.sizes()), y}).backward();
        one->parallel.step();
      }
    EXPECT_EQ(first_difference(weights_of(*gpu.net), weights_of(*cpu.net)), "");
  });
}

// begin(), backward and step(), each on a stream that nothing else knows.
TEST_P(OnGpu, EveryCallFollowsTheStreamThatIsCurrent) {
  run([](Transport& world) {
    Replica cpu(world, plain_config()), gpu(world, plain_config(), emulated_device());
    for (int t = 1; t <= 32; ++t) {
      cpu.step(t);
      {
        const OwnStream stream;
        gpu.parallel.begin(0.01);
      }
      {
        const OwnStream stream;
        const Batch batch = batch_of(t, world.rank());
        loss_of(*gpu.net, {batch.x.to(emulated_device()), batch.y.to(emulated_device())})
            .backward();
      }
      const OwnStream stream;
      gpu.parallel.step();
      ASSERT_EQ(first_difference(weights_of(*gpu.net), weights_of(*cpu.net)), "") << t;
    }
  });
}

// What waits on a stream of torch's when the optimizer is called: written before it reads.
void halve(Replica& replica) {
  const ::torch::NoGradGuard no_grad;
  std::vector<::torch::Tensor> parameters = replica.net->parameters(), halves;
  for (const ::torch::Tensor& one : parameters) halves.push_back(one * 0.5F);
  for (std::size_t i = 0; i < halves.size(); ++i) parameters[i].copy_(halves[i]);
}

TEST_P(OnGpu, BeginSeesWhatWasWrittenOnItsStream) {
  run([](Transport& world) {
    const OptimizerConfig config = short_config("zero-one-adam");  // begin() takes up the weights
    Replica cpu(world, config), gpu(world, config, emulated_device());
    for (int t = 1; t <= 12; ++t) {
      halve(cpu);
      cpu.step(t);
      {
        const OwnStream stream;
        halve(gpu);
        gpu.parallel.begin(0.01);
        weights_of(*gpu.net);  // the host waits for what was enqueued here
      }
      const Batch batch = batch_of(t, world.rank());
      loss_of(*gpu.net, {batch.x.to(emulated_device()), batch.y.to(emulated_device())}).backward();
      gpu.parallel.step();
      ASSERT_EQ(first_difference(weights_of(*gpu.net), weights_of(*cpu.net)), "") << t;
    }
  });
}

TEST_P(OnGpu, SyncedShowsWhatWasWrittenOnItsStream) {
  run([](Transport& world) {
    Replica cpu(world, plain_config()), gpu(world, plain_config(), emulated_device());
    for (int t = 1; t <= 12; ++t) {
      cpu.step(t);
      halve(cpu);
      {
        const OwnStream stream;
        gpu.step(t);
        weights_of(*gpu.net);
      }
      const OwnStream stream;
      halve(gpu);
      const torch::DataParallel::Synced of_gpu(gpu.parallel);
      ASSERT_EQ(first_difference(weights_of(*gpu.net), weights_of(*cpu.net)), "") << t;
    }
  });
}

TEST_P(OnGpu, ParametersWithoutAGradientRest) {
  run([](Transport& world) {
    Replica gpu(world, plain_config(), emulated_device());
    const ::torch::Tensor before = gpu.net->middle->weight.detach().cpu();
    const Batch batch = batch_of(1, world.rank());
    gpu.parallel.begin(0.1);
    ::torch::mse_loss(gpu.net->last(::torch::tanh(gpu.net->first(batch.x.to(emulated_device())))),
                      batch.y.to(emulated_device()))
        .backward();
    gpu.parallel.step();
    EXPECT_TRUE(gpu.net->middle->weight.cpu().equal(before));
  });
}

TEST_P(OnGpu, WeightsThatOthersWriteCount) {
  run([](Transport& world) {
    const OptimizerConfig config = short_config("zero-one-adam");
    Replica cpu(world, config), gpu(world, config, emulated_device());
    for (Replica* one : {&cpu, &gpu}) {
      for (int t = 1; t <= 2; ++t) one->step(t);  // a sync each
      {
        const ::torch::NoGradGuard no_grad;
        one->net->first->weight.clamp_(-0.1, 0.1);
      }
      for (int t = 3; t <= 4; ++t) one->step(t);
    }
    EXPECT_EQ(first_difference(weights_of(*gpu.net), weights_of(*cpu.net)), "");
  });
}

TEST_P(OnGpu, CheckpointsMoveBetweenDevices) {
  const Scratch scratch;
  run([&scratch](Transport& world) {
    const OptimizerConfig config = short_config("zero-one-adam");
    Replica whole(world, config), first(world, config, emulated_device()), second(world, config);
    for (int t = 1; t <= 20; ++t) whole.step(t);
    for (int t = 1; t <= 9; ++t) first.step(t);
    save_checkpoint(scratch / "saved", first.parallel.optimizer());
    EXPECT_EQ(load_checkpoint(scratch / "saved", second.parallel.optimizer()), Resume::kExact);
    for (int t = 10; t <= 14; ++t) second.step(t);
    save_checkpoint(scratch / "again", second.parallel.optimizer());
    EXPECT_EQ(load_checkpoint(scratch / "again", first.parallel.optimizer()), Resume::kExact);
    for (int t = 15; t <= 20; ++t) first.step(t);
    EXPECT_EQ(first_difference(weights_of(*first.net), weights_of(*whole.net)), "");
  });
}

TEST_P(OnGpu, BuffersBecomeTheirMean) {
  run([](Transport& world) {
    const auto of = [&](const ::torch::Device& device) {
      ::torch::Tensor mean = ::torch::full({3}, 1.0F + static_cast<float>(world.rank())).to(device);
      ::torch::Tensor count = ::torch::full({}, world.rank() + 7, ::torch::kLong).to(device);
      torch::average(world, std::vector<torch::NamedTensor>{{"mean", mean}, {"count", count}});
      return std::pair(mean.cpu(), count.cpu());
    };
    const auto cpu = of(::torch::kCPU), gpu = of(emulated_device());
    EXPECT_TRUE(cpu.first.equal(gpu.first));
    EXPECT_TRUE(cpu.second.equal(gpu.second));
  });
}

TEST(DataParallelOnGpu, AReplacedParameterComesBackToItsDevice) {
  run_ranks(rank_counts().front(), [](Transport& world) {
    Replica replica(world, plain_config(), emulated_device());
    replica.step(1);
    ::torch::Tensor& weight = replica.net->first->weight;
    const ::torch::Tensor other = (weight.detach() * 2).cpu();
    weight.set_data(other.to(emulated_device()));
    replica.parallel.begin(0);
    EXPECT_EQ(weight.data_ptr(), replica.parallel.optimizer().model().weights.data());
    EXPECT_TRUE(weight.detach().cpu().equal(other));
    replica.parallel.step();
    weight.set_data(weight.detach().to(::torch::kFloat64));
    EXPECT_TRUE(says(refusal_of([&] { replica.parallel.begin(0.01); }),
                     {"first.weight", "Double", "float32 of 96 on emulated:0 is trained"}));
  });
}

TEST(DataParallelOnGpu, OtherDevicesAreRefusedWithBothNames) {
  run_ranks(rank_counts().front(), [](Transport& world) {
    OptimizerConfig config = plain_config();
    config.device = "cuda:1";
    EXPECT_TRUE(says(refusal_of([&] { Replica(world, config, emulated_device()); }),
                     {"device = cuda:1", "parameters on emulated:0", "leave device out"}));
    const auto mixed = std::make_shared<Net>(0);
    put_on(emulated_device(), mixed->last);
    const torch::DataParallelConfig plain{plain_config(), {}, {}};
    EXPECT_TRUE(says(refusal_of([&] { torch::DataParallel(mixed, plain, world); }),
                     {"first.weight is on cpu", "last.weight on emulated:0", "a process per GPU"}));
  });
}

TEST(DataParallelOnGpu, NamesTheLibrarysDevice) {
  EXPECT_EQ(torch::device_named(::torch::kCPU), "cpu");
  EXPECT_EQ(torch::device_named(::torch::Device("cuda")), "cuda:0");
  EXPECT_EQ(torch::device_named(::torch::Device("cuda:3")), "cuda:3");
  EXPECT_EQ(torch::device_named(emulated_device()), "emulated");
  EXPECT_EQ(torch::device_named(::torch::Device("mps")), "");
  EXPECT_EQ(torch::device_named(::torch::Device("xpu:0")), "");
}

}  // namespace
}  // namespace laconic::testing
