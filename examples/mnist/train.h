// A small convolutional net learns ten digits, as with MNIST; every rank generates its own images.
#pragma once

#include <laconic/torch/optim.h>
#include <torch/torch.h>

#include <cstdio>

struct Net : torch::nn::Module {
  Net()
      : conv1(register_module("conv1", torch::nn::Conv2d(conv(1, 8)))),
        norm(register_module("norm", torch::nn::BatchNorm2d(8))),
        conv2(register_module("conv2", torch::nn::Conv2d(conv(8, 16)))),
        out(register_module("out", torch::nn::Linear(16 * 6 * 6, 10))) {}

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(norm(conv1(x)));
    return out(torch::relu(conv2(x)).flatten(1));
  }

  static torch::nn::Conv2dOptions conv(int in, int out) {
    return torch::nn::Conv2dOptions(in, out, 3).stride(2);
  }
  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d norm;
  torch::nn::Conv2d conv2;
  torch::nn::Linear out;
};

// Noise over one of ten patterns. Ranks that are threads share torch's own generator, hence this.
class Digits {
 public:
  explicit Digits(int seed) : random_(at::detail::createCPUGenerator(static_cast<uint64_t>(seed))) {
    patterns_ = torch::rand({10, 1, 28, 28}, at::detail::createCPUGenerator(7));
  }
  std::pair<torch::Tensor, torch::Tensor> batch(int size) {
    const auto labels = torch::randint(10, {size}, random_, torch::kInt64);
    return {patterns_.index_select(0, labels) + 0.7 * torch::randn({size, 1, 28, 28}, random_),
            labels};
  }

 private:
  torch::Generator random_;
  torch::Tensor patterns_;
};

// Trains on one rank of `world` and prints how well.
inline void train(laconic::Transport& world) {
  constexpr int kSteps = 100;
  torch::set_num_threads(1);  // ranks share the cores
  const auto net = std::make_shared<Net>();
  laconic::torch::DataParallel parallel(
      net,
      {.optimizer = {.algorithm = "zero-one-adam", .total_steps = kSteps},
       .groups = {},
       .grouping = {}},
      world);
  laconic::torch::Optim optimizer(parallel, 2e-3);
  torch::optim::StepLR schedule(optimizer, 60, 0.3);
  Digits digits(world.rank());
  for (int t = 0; t < kSteps; ++t) {
    const auto [images, labels] = digits.batch(32);
    optimizer.zero_grad();
    torch::cross_entropy_loss(net->forward(images), labels).backward();
    optimizer.step();
    schedule.step();
  }
  parallel.average_buffers();
  const laconic::torch::DataParallel::Synced synced(parallel);
  const torch::NoGradGuard no_grad;
  net->eval();
  const auto [images, labels] = Digits(1000).batch(500);
  const auto right = (net->forward(images).argmax(1) == labels).to(torch::kFloat32).mean();
  if (world.rank() == 0)
    std::printf("accuracy %.3f after %d steps on %d ranks, %.2f bits per parameter and step\n",
                right.item<double>(), kSteps, world.size(),
                8.0 * static_cast<double>(parallel.optimizer().totals().bytes) / kSteps /
                    static_cast<double>(parallel.optimizer().model().weights.size()));
}
