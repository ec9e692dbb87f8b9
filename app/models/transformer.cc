#include "app/models/transformer.h"

#include <algorithm>
#include <cmath>

#include "laconic/core/error.h"

namespace laconic::app::models {

constexpr double kPublishedDeviation = 0.02, kPublishedWidth = 768;

double matrix_deviation(std::int64_t width) {
  return kPublishedDeviation * std::sqrt(std::max(1.0, kPublishedWidth / double(width)));
}

double embedding_deviation(std::int64_t width) {
  return double(width) < kPublishedWidth ? 1 / std::sqrt(double(width)) : kPublishedDeviation;
}

Embedding::Embedding(Draw& draw, std::int64_t count, std::int64_t width)
    : weight_(
          register_parameter("weight", draw.normal({count, width}, embedding_deviation(width)))) {}

torch::Tensor Embedding::operator()(const torch::Tensor& indices) const {
  return at::embedding(weight_, indices);
}

torch::Tensor Embedding::first(std::int64_t count) const {
  if (count > weight_.size(0))
    fail(Code::kInvalidArgument,
         "examples of {} tokens do not fit a model made for {}: make it with data of that length",
         count, weight_.size(0));
  return weight_.narrow(0, 0, count);
}

torch::Tensor Embedding::logits(const torch::Tensor& x,
                                const std::optional<torch::Tensor>& bias) const {
  return at::linear(x, weight_, bias);
}

Norm::Norm(std::int64_t width, double epsilon)
    : epsilon_(epsilon),
      weight_(register_parameter("weight", torch::ones({width}))),
      bias_(register_parameter("bias", torch::zeros({width}))) {}

torch::Tensor Norm::operator()(const torch::Tensor& x) const {
  return at::layer_norm(x, weight_.sizes(), weight_, bias_, epsilon_);
}

torch::Tensor attend(const torch::Tensor& query, const torch::Tensor& key,
                     const torch::Tensor& value, std::int64_t heads, const Sight& sight) {
  const auto split = [&](const torch::Tensor& x) {
    return x.unflatten(-1, {heads, -1}).transpose(1, 2);
  };
  return at::scaled_dot_product_attention(split(query), split(key), split(value), sight.bias, 0.0,
                                          sight.causal)
      .transpose(1, 2)
      .flatten(-2);
}

}  // namespace laconic::app::models
