#include "app/models/bert.h"

#include <fmt/format.h>

#include "app/models/transformer.h"

namespace laconic::app::models {
namespace {

constexpr double kBertEpsilon = 1e-12;
constexpr double kUnseen = -1e9;  // finite: an example of nothing but padding must not give NaN

struct BertLayer {
  BertLayer(torch::nn::Module& root, const std::string& path, const ModelConfig& config, Draw& draw)
      : heads(config.heads) {
    const std::int64_t width = config.width;
    const auto linear = [&](const char* name, std::int64_t in, std::int64_t out) {
      return place<Linear>(root, path + name, draw, in, out, matrix_deviation(config.width));
    };
    query = linear("attention.self.query", width, width);
    key = linear("attention.self.key", width, width);
    value = linear("attention.self.value", width, width);
    attended = linear("attention.output.dense", width, width);
    attention_norm = place<Norm>(root, path + "attention.output.LayerNorm", width, kBertEpsilon);
    widened = linear("intermediate.dense", width, 4 * width);
    narrowed = linear("output.dense", 4 * width, width);
    feed_norm = place<Norm>(root, path + "output.LayerNorm", width, kBertEpsilon);
  }

  torch::Tensor attention(const torch::Tensor& x, const Sight& sight) const {
    return (*attended)(attend((*query)(x), (*key)(x), (*value)(x), heads, sight));
  }

  torch::Tensor feed_forward(const torch::Tensor& x) const {
    return (*narrowed)(at::gelu((*widened)(x)));
  }

  std::int64_t heads;
  std::shared_ptr<Linear> query, key, value, attended, widened, narrowed;
  std::shared_ptr<Norm> attention_norm, feed_norm;
};

// Both kinds up to the last layer: [n, length, width].
class Encoder : public Network {
 public:
  Encoder(const ModelConfig& config, const data::DataShape& shape, Draw& draw)
      : dropped_(config.dropout), padding_(shape.padding) {
    const auto table = [&](const char* name, std::int64_t count) {
      return place<Embedding>(*this, std::string("bert.embeddings.") + name, draw, count,
                              config.width);
    };
    tokens_ = table("word_embeddings", shape.vocabulary);
    positions_ = table("position_embeddings", shape.length);
    segments_ = table("token_type_embeddings", 2);
    norm_ = place<Norm>(*this, "bert.embeddings.LayerNorm", config.width, kBertEpsilon);
    for (std::int64_t i = 0; i < config.depth; ++i)
      layers_.emplace_back(*this, fmt::format("bert.encoder.layer.{}.", i), config, draw);
  }

 protected:
  torch::Tensor encode(const torch::Tensor& inputs) {
    Sight sight;
    if (padding_ >= 0)
      sight.bias = ((inputs == padding_).to(torch::kFloat) * kUnseen).unsqueeze(1).unsqueeze(1);
    torch::Tensor x =
        (*tokens_)(inputs) + (positions_->first(inputs.size(1)) + segments_->first(1));
    x = dropped((*norm_)(x));
    for (const BertLayer& layer : layers_) {
      x = (*layer.attention_norm)(x + dropped(layer.attention(x, sight)));
      x = (*layer.feed_norm)(x + dropped(layer.feed_forward(x)));
    }
    return x;
  }

  torch::Tensor dropped(const torch::Tensor& x) { return dropout(x, dropped_); }
  const Embedding& tokens() const { return *tokens_; }

 private:
  double dropped_;
  std::int64_t padding_;
  std::shared_ptr<Embedding> tokens_, positions_, segments_;
  std::shared_ptr<Norm> norm_;
  std::vector<BertLayer> layers_;
};

class MaskedBert : public Encoder {
 public:
  MaskedBert(const ModelConfig& config, const data::DataShape& shape, Draw& draw)
      : Encoder(config, shape, draw),
        bias_(at_path(*this, "cls.predictions")
                  .register_parameter("bias", torch::zeros({shape.vocabulary}))),
        dense_(place<Linear>(*this, "cls.predictions.transform.dense", draw, config.width,
                             config.width, matrix_deviation(config.width))),
        norm_(place<Norm>(*this, "cls.predictions.transform.LayerNorm", config.width,
                          kBertEpsilon)) {}

  torch::Tensor forward(const torch::Tensor& inputs) override {
    return tokens().logits((*norm_)(at::gelu((*dense_)(encode(inputs)))), bias_);
  }

 private:
  torch::Tensor bias_;
  std::shared_ptr<Linear> dense_;
  std::shared_ptr<Norm> norm_;
};

class ClassifyingBert : public Encoder {
 public:
  ClassifyingBert(const ModelConfig& config, const data::DataShape& shape, Draw& draw)
      : Encoder(config, shape, draw),
        pooler_(place<Linear>(*this, "bert.pooler.dense", draw, config.width, config.width,
                              matrix_deviation(config.width))),
        classifier_(place<Linear>(*this, "classifier", draw, config.width, shape.classes,
                                  matrix_deviation(config.width))) {}

  torch::Tensor forward(const torch::Tensor& inputs) override {
    const torch::Tensor first = encode(inputs).select(1, 0);
    return (*classifier_)(dropped((*pooler_)(first).tanh()));
  }

 private:
  std::shared_ptr<Linear> pooler_, classifier_;
};

}  // namespace

std::shared_ptr<Network> make_bert(const ModelConfig& config, const data::DataShape& shape,
                                   Draw& draw) {
  if (shape.classes > 0) return std::make_shared<ClassifyingBert>(config, shape, draw);
  return std::make_shared<MaskedBert>(config, shape, draw);
}

}  // namespace laconic::app::models
