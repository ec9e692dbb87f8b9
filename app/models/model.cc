#include "app/models/model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "app/models/bert.h"
#include "app/models/gpt2.h"
#include "app/models/resnet.h"
#include "laconic/core/error.h"
#include "laconic/core/random.h"
#include "laconic/optim/spelling.h"

namespace laconic::app::models {
namespace {

enum class Reads : std::uint8_t { kImages, kText, kBothSides };

struct Published {
  std::string_view name;
  Reads reads;
  std::int64_t width, depth, heads;  // depth 0: differs between stages; heads 0: has none
  double dropout;
  std::int64_t size;     // classes of images, or tokens in the vocabulary
  std::int64_t context;  // positions of tokens
  std::shared_ptr<Network> (*make)(const ModelConfig&, const data::DataShape&, Draw&);
};

constexpr Published kModels[] = {
    {"resnet8", Reads::kImages, 16, 1, 0, 0, 10, 0, make_small_resnet},
    {"resnet20", Reads::kImages, 16, 3, 0, 0, 10, 0, make_small_resnet},
    {"resnet18", Reads::kImages, 64, 0, 0, 0, 1000, 0, make_basic_resnet},
    {"resnet50", Reads::kImages, 64, 0, 0, 0, 1000, 0, make_bottleneck_resnet},
    {"gpt2-mini", Reads::kText, 128, 5, 4, 0, 256, 128, make_gpt2},
    {"gpt2", Reads::kText, 768, 12, 12, 0.1, 50257, 1024, make_gpt2},
    {"bert-mini", Reads::kBothSides, 128, 4, 4, 0, 1024, 128, make_bert},
    {"bert-base", Reads::kBothSides, 768, 12, 12, 0.1, 30522, 512, make_bert},
    {"bert-large", Reads::kBothSides, 1024, 24, 16, 0.1, 30522, 512, make_bert},
};

constexpr std::int64_t kWidest = 16384, kDeepest = 1024, kMostTokens = 1 << 24;

const Published& find(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Published& each : kModels) {
    if (spelled(each.name) == spelled(name)) return each;
    names.push_back(each.name);
  }
  fail(Code::kInvalidArgument, "there is no model \"{}\": did you mean \"{}\"? There are {}", name,
       nearest(name, names), fmt::join(names, ", "));
}

void check_size(const Published& model, const char* what, std::int64_t size, std::int64_t most) {
  if (size < 0 || size > most)
    fail(Code::kInvalidArgument, "{} of {} cannot be {}: give 1 to {}, or 0 for its own", what,
         model.name, size, most);
}

ModelConfig filled(const Published& model, ModelConfig config) {
  check_size(model, "the width", config.width, kWidest);
  check_size(model, "the depth", config.depth, kDeepest);
  check_size(model, "the number of heads", config.heads, kWidest);
  if (config.width == 0) config.width = model.width;
  if (config.depth == 0) config.depth = model.depth;
  if (model.reads == Reads::kImages && (config.heads > 0 || config.dropout > 0))
    fail(Code::kInvalidArgument,
         "{} has no heads and no dropout, and {} heads with dropout {} are "
         "asked for: leave both out",
         model.name, config.heads, config.dropout);
  if (config.heads == 0) config.heads = model.heads;
  if (config.heads > 0 && config.width % config.heads != 0)
    fail(Code::kInvalidArgument,
         "{} heads of {} do not divide its width of {}: give a width that "
         "is a multiple of the heads, such as {}",
         config.heads, model.name, config.width, (config.width / config.heads + 1) * config.heads);
  if (config.dropout < 0) config.dropout = model.dropout;
  if (!(config.dropout < 1))
    fail(Code::kInvalidArgument, "the dropout of {} cannot be {}: give 0 or more and less than 1",
         model.name, config.dropout);
  return config;
}

Reads reads(const data::DataShape& shape) {
  if (shape.images) return Reads::kImages;
  return shape.masked || shape.classes > 0 ? Reads::kBothSides : Reads::kText;
}

const char* describe(Reads data) {
  switch (data) {
    case Reads::kImages: return "images";
    case Reads::kText: return "text, for causal language modelling";
    case Reads::kBothSides: return "text with masked tokens or with classes";
  }
  return "";
}

void check_fits(const Published& model, Reads data) {
  if (model.reads == data) return;
  std::vector<std::string_view> fitting;
  for (const Published& each : kModels)
    if (each.reads == data) fitting.push_back(each.name);
  fail(Code::kInvalidArgument, "{} is for {}, and the data are {}: for these choose {}", model.name,
       describe(model.reads), describe(data), fmt::join(fitting, ", "));
}

data::DataShape filled(const Published& model, data::DataShape shape) {
  const bool counting_only = !shape.images && !shape.masked && shape.vocabulary == 0 &&
                             shape.length == 0 && shape.classes == 0;
  if (!counting_only) check_fits(model, reads(shape));
  if (model.reads == Reads::kImages) {
    if (shape.channels == 0) shape.channels = 3;
    if (shape.classes == 0) shape.classes = model.size;
  } else {
    if (shape.vocabulary == 0) shape.vocabulary = model.size;
    // Never fewer positions, so that weights trained on long examples fit a model for short ones.
    shape.length = std::max(shape.length, model.context);
  }
  return shape;
}

// The published number of tokens, or one for other data: more than these data have.
void check_vocabulary(const Published& model, std::int64_t vocabulary, std::int64_t tokens) {
  check_size(model, "the vocabulary", vocabulary, kMostTokens);
  if (vocabulary > 0 && model.reads == Reads::kImages)
    fail(Code::kInvalidArgument,
         "{} reads images, and a vocabulary of {} is asked for: leave it out", model.name,
         vocabulary);
  if (vocabulary > 0 && vocabulary < tokens)
    fail(Code::kInvalidArgument,
         "the vocabulary of {} is to be {}, and the data have {} tokens: give at least so many, or "
         "0",
         model.name, vocabulary, tokens);
}

std::shared_ptr<Network> made(const ModelConfig& config, const data::DataShape& shape, Draw draw) {
  const Published& model = find(config.name);
  check_vocabulary(model, config.vocabulary, shape.vocabulary);
  data::DataShape full = filled(model, shape);
  if (config.vocabulary > 0) full.vocabulary = config.vocabulary;
  return model.make(filled(model, config), full, draw);
}

torch::Tensor viewed(const void* data, std::size_t count, at::IntArrayRef sizes,
                     at::ScalarType type) {
  if (c10::multiply_integers(sizes) != std::int64_t(count))
    fail(Code::kInvalidArgument,
         "a batch holds {} values where its shape [{}] asks for {}: give "
         "the shape of the data set that filled it",
         count, fmt::join(sizes, ", "), c10::multiply_integers(sizes));
  return torch::from_blob(const_cast<void*>(data), sizes, type);
}

std::int64_t counted(const torch::Tensor& targets) {
  return (targets != data::kIgnored).sum().item<std::int64_t>();
}

torch::Tensor summed_loss(const torch::Tensor& logits, const torch::Tensor& targets) {
  return at::cross_entropy_loss(logits.flatten(0, -2), targets.to(logits.device()).flatten(), {},
                                at::Reduction::Sum, data::kIgnored);
}

}  // namespace

void Network::reseed(std::uint32_t seed, int rank, std::int64_t step) {
  const auto step_bits = static_cast<std::uint64_t>(step);
  const auto bits =
      philox({static_cast<std::uint32_t>(Stream::kDropout), static_cast<std::uint32_t>(rank),
              static_cast<std::uint32_t>(step_bits >> 32), 0},
             {seed, static_cast<std::uint32_t>(step_bits)});
  if (!generator_.defined()) generator_ = at::detail::createCPUGenerator();
  generator_.set_current_seed(bits[0]);
}

torch::Tensor Network::dropout(const torch::Tensor& x, double p) {
  if (!is_training() || p == 0) return x;
  if (!generator_.defined())
    fail(Code::kInvalidArgument, "dropout of {} without a seed: call reseed before each step", p);
  // Drawn by the host: the same elements on every device.
  const auto kept = torch::empty_like(x, torch::kCPU).bernoulli_(1 - p, generator_).div_(1 - p);
  return x * kept.to(x.device());
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Published& each : kModels) names.emplace_back(each.name);
  return names;
}

std::shared_ptr<Network> make_model(const ModelConfig& config, const data::DataShape& shape,
                                    std::uint32_t seed) {
  return made(config, shape, Draw(seed));
}

std::shared_ptr<Network> make_blank_model(const ModelConfig& config, const data::DataShape& shape) {
  return made(config, shape, Draw());
}

torch::Tensor inputs_of(const data::Batch& batch, const data::DataShape& shape) {
  if (shape.images)
    return viewed(batch.values.data(), batch.values.size(),
                  {batch.size, shape.channels, shape.height, shape.width}, torch::kFloat);
  return viewed(batch.tokens.data(), batch.tokens.size(), {batch.size, shape.length}, torch::kLong);
}

torch::Tensor targets_of(const data::Batch& batch, const data::DataShape& shape) {
  const bool one_each = shape.images || shape.classes > 0;
  const auto sizes = one_each ? std::vector{batch.size} : std::vector{batch.size, shape.length};
  return viewed(batch.targets.data(), batch.targets.size(), sizes, torch::kLong);
}

torch::Tensor loss_of(const torch::Tensor& logits, const torch::Tensor& targets) {
  // Not torch's mean, which is NaN where nothing counts.
  return summed_loss(logits, targets) / std::max<std::int64_t>(1, counted(targets));
}

Score score_of(const torch::Tensor& logits, const torch::Tensor& targets) {
  const torch::NoGradGuard no_gradients;
  return {.loss = summed_loss(logits, targets).item<double>(),
          .correct = (logits.argmax(-1).cpu() == targets).sum().item<std::int64_t>(),
          .targets = counted(targets)};
}

}  // namespace laconic::app::models
