#include "laconic/torch/arena.h"

#include <gtest/gtest.h>

#include "tests/support/refusal.h"
#include "tests/torch/net.h"

namespace laconic::testing {
namespace {

using torch::Arena;
using torch::parameters_of;

// Two layers with one weight.
struct Tied : ::torch::nn::Module {
  Tied() : in(register_module("in", ::torch::nn::Linear(4, 4))) {
    register_parameter("out", in->weight);
    fill(*this, 1);
  }
  ::torch::nn::Linear in;
};

std::string refusal(const ::torch::Tensor& first, const ::torch::Tensor& second = {}) {
  ::torch::nn::Module module;
  module.register_parameter("alpha", first);
  if (second.defined()) module.register_parameter("omega", second);
  return refusal_of([&] { torch::check_parameters(parameters_of(module)); });
}

TEST(Arena, ParametersAndGradientsAreViewsOfFlatMemory) {
  Net net(1);
  const std::vector<float> before = weights_of(net);
  const Arena arena(parameters_of(net));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.weights().data()) % 64, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.gradient().data()) % 64, 0U);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), arena.weights().begin()));
  loss_of(net, batch_of(1, 0)).backward();
  std::size_t at = 0;
  for (const auto& p : net.parameters()) {
    EXPECT_EQ(p.data_ptr<float>(), &arena.weights()[at]);
    EXPECT_EQ(p.grad().data_ptr<float>(), &arena.gradient()[at]);
    EXPECT_NE(p.grad().abs().sum().item<float>(), 0);
    at += static_cast<std::size_t>(p.numel());
  }
  EXPECT_EQ(at, arena.weights().size());
}

TEST(Arena, ASharedParameterLiesThereOnce) {
  Tied tied;
  const Arena arena(parameters_of(tied));
  EXPECT_EQ(arena.weights().size(), 20U);
  EXPECT_EQ(arena.ranges().size(), 2U);
  EXPECT_EQ(tied.named_parameters()["out"].data_ptr(), tied.in->weight.data_ptr());
}

TEST(Arena, ADroppedGradientIsZeroOrWhatBackwardPutElsewhere) {
  Net net(1);
  Arena arena(parameters_of(net));
  loss_of(net, batch_of(1, 0)).backward();
  const ::torch::Tensor gradient = net.first->weight.grad().clone();
  net.zero_grad();
  loss_of(net, batch_of(1, 0)).backward();
  EXPECT_NE(net.first->weight.grad().data_ptr<float>(), arena.gradient().data());
  arena.take_gradient(0);
  EXPECT_EQ(net.first->weight.grad().data_ptr<float>(), arena.gradient().data());
  EXPECT_TRUE(net.first->weight.grad().equal(gradient));
  net.first->weight.mutable_grad() = ::torch::Tensor();
  arena.take_gradient(0);
  EXPECT_TRUE(net.first->weight.grad().equal(::torch::zeros_like(gradient)));
}

TEST(Arena, ASparseGradientIsTaken) {
  ::torch::nn::Embedding table(::torch::nn::EmbeddingOptions(5, 2).sparse(true));
  Arena arena(parameters_of(*table));
  table->zero_grad();
  table(::torch::tensor({3, 1, 3})).sum().backward();
  arena.take_gradient(0);
  EXPECT_TRUE(table->weight.grad().equal(
      ::torch::tensor({0, 0, 1, 1, 0, 0, 2, 2, 0, 0}).to(::torch::kFloat32).view({5, 2})));
}

TEST(Arena, TensorsOutliveIt) {
  Net net(1);
  const std::vector<float> before = weights_of(net);
  std::make_unique<Arena>(parameters_of(net)).reset();
  EXPECT_EQ(weights_of(net), before);
  loss_of(net, batch_of(1, 0)).backward();
  ::torch::optim::SGD(net.parameters(), 0.1).step();
  EXPECT_NE(weights_of(net), before);
  const Arena again(parameters_of(net));
  EXPECT_TRUE(std::equal(again.weights().begin(), again.weights().end(), weights_of(net).begin()));
}

TEST(Arena, ParametersThatDoNotFitAreRefusedByName) {
  using ::torch::empty;
  EXPECT_TRUE(says(refusal(empty({2}, ::torch::kFloat64)), {"alpha", "Double", "float32"}));
  EXPECT_TRUE(says(refusal(empty({2}, ::torch::kMeta)), {"alpha", "meta", "CPU"}));
  EXPECT_TRUE(says(refusal(empty({2, 3}).t()), {"alpha", "contiguous()"}));
  EXPECT_TRUE(says(refusal(empty({2, 3}).to_sparse()), {"alpha", "sparse"}));
  const ::torch::Tensor both = empty({4});
  EXPECT_TRUE(says(refusal(both.slice(0, 0, 3), both.slice(0, 2, 4)), {"alpha", "omega"}));
  EXPECT_EQ(refusal(both.slice(0, 0, 2), both.slice(0, 2, 4)), "nothing was thrown");
}

}  // namespace
}  // namespace laconic::testing
