#include "app/models/gpt2.h"

#include <fmt/format.h>

#include <cmath>

#include "app/models/transformer.h"

namespace laconic::app::models {
namespace {

constexpr double kGpt2Epsilon = 1e-5;

struct Gpt2Layer {
  Gpt2Layer(torch::nn::Module& root, const std::string& path, const ModelConfig& config, Draw& draw)
      : heads(config.heads) {
    const std::int64_t width = config.width;
    const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, double deviation) {
      return place<Linear>(root, path + name, draw, in, out, deviation, Layout::kInOut);
    };
    // Each layer adds to the residual stream twice: its variance must not grow with the depth.
    const double added = matrix_deviation(config.width) / std::sqrt(2.0 * double(config.depth));
    attention_norm = place<Norm>(root, path + "ln_1", width, kGpt2Epsilon);
    query_key_value = linear("attn.c_attn", width, 3 * width, matrix_deviation(config.width));
    attended = linear("attn.c_proj", width, width, added);
    feed_norm = place<Norm>(root, path + "ln_2", width, kGpt2Epsilon);
    widened = linear("mlp.c_fc", width, 4 * width, matrix_deviation(config.width));
    narrowed = linear("mlp.c_proj", 4 * width, width, added);
  }

  torch::Tensor attention(const torch::Tensor& x) const {
    const auto parts = (*query_key_value)((*attention_norm)(x)).chunk(3, -1);
    return (*attended)(attend(parts[0], parts[1], parts[2], heads, {.causal = true, .bias = {}}));
  }

  torch::Tensor feed_forward(const torch::Tensor& x) const {
    return (*narrowed)(at::gelu((*widened)((*feed_norm)(x)), "tanh"));
  }

  std::int64_t heads;
  std::shared_ptr<Norm> attention_norm, feed_norm;
  std::shared_ptr<Linear> query_key_value, attended, widened, narrowed;
};

class Gpt2 : public Network {
 public:
  Gpt2(const ModelConfig& config, const data::DataShape& shape, Draw& draw)
      : dropped_(config.dropout),
        tokens_(place<Embedding>(*this, "wte", draw, shape.vocabulary, config.width)),
        positions_(place<Embedding>(*this, "wpe", draw, shape.length, config.width)) {
    for (std::int64_t i = 0; i < config.depth; ++i)
      layers_.emplace_back(*this, fmt::format("h.{}.", i), config, draw);
    norm_ = place<Norm>(*this, "ln_f", config.width, kGpt2Epsilon);
  }

  torch::Tensor forward(const torch::Tensor& inputs) override {
    torch::Tensor x = dropout((*tokens_)(inputs) + positions_->first(inputs.size(1)), dropped_);
    for (const Gpt2Layer& layer : layers_) {
      x = x + dropout(layer.attention(x), dropped_);
      x = x + dropout(layer.feed_forward(x), dropped_);
    }
    return tokens_->logits((*norm_)(x));
  }

 private:
  double dropped_;
  std::shared_ptr<Embedding> tokens_, positions_;
  std::vector<Gpt2Layer> layers_;
  std::shared_ptr<Norm> norm_;
};

}  // namespace

std::shared_ptr<Network> make_gpt2(const ModelConfig& config, const data::DataShape& shape,
                                   Draw& draw) {
  return std::make_shared<Gpt2>(config, shape, draw);
}

}  // namespace laconic::app::models
