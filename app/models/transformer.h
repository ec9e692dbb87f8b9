#pragma once

#include <optional>

#include "app/models/layers.h"
#include "app/models/model.h"

// The parts that GPT-2 and BERT share.
namespace laconic::app::models {

// Of initial weights: 0.02 as published, and more in narrower models, whose activations would be
// too small otherwise: they then learn nothing but frequencies for hundreds of steps.
double matrix_deviation(std::int64_t width);
double embedding_deviation(std::int64_t width);

class Embedding : public ::torch::nn::Module {
 public:
  Embedding(Draw& draw, std::int64_t count, std::int64_t width);
  ::torch::Tensor operator()(const ::torch::Tensor& indices) const;
  // The first `count` rows; more than there are is Error(kInvalidArgument).
  ::torch::Tensor first(std::int64_t count) const;
  // How near each row is to x: the output layer of a model that shares its input's weights.
  ::torch::Tensor logits(const ::torch::Tensor& x,
                         const std::optional<::torch::Tensor>& bias = {}) const;

 private:
  ::torch::Tensor weight_;
};

class Norm : public ::torch::nn::Module {
 public:
  Norm(std::int64_t width, double epsilon);
  ::torch::Tensor operator()(const ::torch::Tensor& x) const;

 private:
  double epsilon_;
  ::torch::Tensor weight_, bias_;
};

// What a token may look at: those before it, or all to which `bias` does not add a large negative.
struct Sight {
  bool causal = false;
  std::optional<::torch::Tensor> bias;
};

// Attention of `heads` heads; query, key and value are [n, length, width]. Its probabilities have
// no dropout: the fused kernel would draw from torch's global generator.
::torch::Tensor attend(const ::torch::Tensor& query, const ::torch::Tensor& key,
                       const ::torch::Tensor& value, std::int64_t heads, const Sight& sight);

}  // namespace laconic::app::models
