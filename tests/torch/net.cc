#include "tests/torch/net.h"

namespace laconic::testing {

Net::Net(int seed, int hidden)
    : first(register_module("first", ::torch::nn::Linear(kInputs, hidden))),
      middle(register_module("middle", ::torch::nn::Linear(hidden, hidden))),
      last(register_module("last", ::torch::nn::Linear(hidden, kOutputs))) {
  fill(*this, seed);
}

::torch::Tensor Net::forward(const ::torch::Tensor& x) {
  return last(::torch::tanh(middle(::torch::tanh(first(x)))));
}

void fill(::torch::nn::Module& module, int seed) {
  const ::torch::NoGradGuard no_grad;
  std::int64_t number = 0;
  const auto set = [&](::torch::Tensor& tensor) {
    ::torch::Tensor values = ::torch::empty(tensor.sizes());
    for (std::int64_t k = 0; k < values.numel(); ++k)
      values.data_ptr<float>()[k] = 0.3F * noise(number, seed, static_cast<std::size_t>(k));
    tensor.copy_(tensor.is_floating_point() ? values : values.mul_(1000));
    ++number;
  };
  for (auto& parameter : module.parameters()) set(parameter);
  for (auto& buffer : module.buffers()) set(buffer);
}

Batch batch_of(std::int64_t step, int rank) {
  Batch batch{::torch::empty({kBatch, kInputs}), {}};
  for (std::int64_t k = 0; k < batch.x.numel(); ++k)
    batch.x.data_ptr<float>()[k] = noise(1000 + step, rank, static_cast<std::size_t>(k));
  batch.y = batch.x.slice(1, 0, kOutputs).sin() + batch.x.slice(1, 2, 2 + kOutputs);
  return batch;
}

std::vector<float> weights_of(const ::torch::nn::Module& module) {
  std::vector<float> all;
  for (const auto& parameter : module.parameters()) {
    const ::torch::Tensor host = parameter.detach().cpu();
    const float* begin = host.data_ptr<float>();
    all.insert(all.end(), begin, begin + host.numel());
  }
  return all;
}

namespace {

std::shared_ptr<Net> net_on(const ::torch::Device& device, int seed) {
  auto net = std::make_shared<Net>(seed);
  for (::torch::nn::Linear layer : {net->first, net->middle, net->last}) put_on(device, layer);
  return net;
}

struct Opened : ::torch::nn::Module {
  static auto& parameters_of(::torch::nn::Module& module) { return module.*(&Opened::parameters_); }
};

}  // namespace

void put_on(const ::torch::Device& device, ::torch::nn::Linear& layer) {
  const auto put = [&](const char* name, ::torch::Tensor& parameter) {
    parameter = parameter.detach().to(device).requires_grad_();
    Opened::parameters_of(*layer)[name] = parameter;
  };
  put("weight", layer->weight);
  put("bias", layer->bias);
}

Replica::Replica(Transport& transport, const OptimizerConfig& config, ::torch::Device device)
    : world(transport),
      net(net_on(device, world.rank())),
      parallel(net, {.optimizer = config, .groups = {}, .grouping = {}}, world) {}

void Replica::step(std::int64_t t, double lr) {
  parallel.begin(lr);
  const Batch batch = batch_of(t, world.rank());
  const ::torch::Device device = net->first->weight.device();
  loss_of(*net, {batch.x.to(device), batch.y.to(device)}).backward();
  parallel.step();
}

OptimizerConfig plain_config() {
  OptimizerConfig config = short_config("adamw");
  config.weight_decay = 0;
  return config;
}

}  // namespace laconic::testing
