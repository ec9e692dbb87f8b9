#include "app/models/layers.h"

#include <ATen/CPUGeneratorImpl.h>

namespace laconic::app::models {

Draw::Draw(std::uint32_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

torch::Tensor Draw::normal(at::IntArrayRef sizes, double deviation) {
  const torch::Tensor result = torch::empty(sizes);
  return generator_.defined() ? result.normal_(0, deviation, generator_) : result;
}

Linear::Linear(Draw& draw, std::int64_t in, std::int64_t out, double deviation, Layout layout)
    : layout_(layout) {
  const auto weight = layout == Layout::kOutIn ? std::array{out, in} : std::array{in, out};
  weight_ = register_parameter("weight", draw.normal(weight, deviation));
  bias_ = register_parameter("bias", torch::zeros({out}));
}

torch::Tensor Linear::operator()(const torch::Tensor& x) const {
  return at::linear(x, layout_ == Layout::kOutIn ? weight_ : weight_.t(), bias_);
}

torch::nn::Module& at_path(torch::nn::Module& root, std::string_view path) {
  const auto dot = path.find('.');
  const std::string name(path.substr(0, dot));
  const auto children = root.named_children();
  const auto* found = children.find(name);
  torch::nn::Module& child =
      found ? **found : *root.register_module(name, std::make_shared<torch::nn::Module>());
  return dot == std::string_view::npos ? child : at_path(child, path.substr(dot + 1));
}

}  // namespace laconic::app::models
