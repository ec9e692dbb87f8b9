#include "app/data/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "app/data/examples.h"
#include "app/data/files.h"
#include "app/data/generated.h"
#include "laconic/core/error.h"
#include "laconic/core/hash.h"

namespace laconic::app::data {
namespace {

class TextDataset final : public Dataset {
 public:
  TextDataset(std::vector<Token> train, std::vector<Token> validation, const DataConfig& config,
              const Tokenizer& tokenizer)
      : train_(std::move(train)),
        validation_(std::move(validation)),
        seed_(config.seed),
        origin_(config.path) {
    shape_.length = config.context;
    shape_.vocabulary = tokenizer.vocabulary();
    shape_.tokenizer = tokenizer.fingerprint();
    Hash64 hash(static_cast<std::uint64_t>(config.context) ^ shape_.tokenizer);
    hash.add(std::as_bytes(std::span(train_)));
    hash.add(std::as_bytes(std::span(validation_)));
    fingerprint_ = hash.value();
  }

  const DataShape& shape() const noexcept override { return shape_; }
  std::uint64_t fingerprint() const noexcept override { return fingerprint_; }

  std::int64_t size(Split split) const noexcept override {
    const std::int64_t targets = std::ssize(of(split)) - 1;
    return split == Split::kTrain ? targets / shape_.length
                                  : (targets + shape_.length - 1) / shape_.length;
  }

  std::string describe() const override {
    return fmt::format("text, {} + {} tokens ({} different) from {}, {} in a row",
                       with_commas(std::ssize(train_)), with_commas(std::ssize(validation_)),
                       with_commas(shape_.vocabulary), origin_, with_commas(shape_.length));
  }

  void read(Split split, std::span<const std::int64_t> examples, std::uint64_t draw,
            Batch& out) const override {
    check_examples(examples, size(split));
    const std::vector<Token>& tokens = of(split);
    const auto length = static_cast<std::size_t>(shape_.length);
    out.size = std::ssize(examples);
    out.values.clear();
    out.tokens.assign(examples.size() * length, 0);
    out.targets.assign(examples.size() * length, kIgnored);
    for (std::size_t i = 0; i < examples.size(); ++i) {
      std::int64_t begin = examples[i] * shape_.length;
      if (split == Split::kTrain) begin += jitter(begin, examples[i], draw);
      const auto first = tokens.begin() + begin;
      const std::int64_t count = std::min(shape_.length, tokens.end() - first - 1);
      std::copy_n(first, count, out.tokens.data() + i * length);
      std::copy_n(first + 1, count, out.targets.data() + i * length);
    }
  }

 private:
  const std::vector<Token>& of(Split split) const noexcept {
    return split == Split::kTrain ? train_ : validation_;
  }

  std::int64_t jitter(std::int64_t begin, std::int64_t example, std::uint64_t draw) const noexcept {
    const std::int64_t last = std::ssize(train_) - 1 - shape_.length;  // where a window may begin
    const std::int64_t places = std::min(shape_.length, last - begin + 1);
    const auto bits = random_bits(Purpose::kWindow, seed_, draw, example, 0);
    return below(static_cast<std::uint32_t>(places), bits[0]);
  }

  std::vector<Token> train_, validation_;
  std::uint32_t seed_;
  std::string origin_;
  DataShape shape_;
  std::uint64_t fingerprint_;
};

}  // namespace

std::string read_text(const std::string& path) {
  if (path == kGenerated) return generated_text();
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return read_file(path);
  const auto files = files_in(path);
  if (files.empty())
    fail(Code::kInvalidArgument, "{} holds 0 files, at least 1 with text is needed: put text there",
         path);
  std::string text;
  for (const auto& file : files) text += read_file(file);
  return text;
}

TextSplit split_text(std::string_view text) noexcept {
  const std::size_t cut = text.size() - text.size() / 10;
  return {text.substr(0, cut), text.substr(cut)};
}

TextSplit split_text(std::string_view text, const DataConfig& config) noexcept {
  const TextSplit split = split_text(text);
  return config.tuning() ? split_text(split.train) : split;
}

std::shared_ptr<const Dataset> make_text_dataset(const Tokenizer& tokenizer, std::string_view text,
                                                 const DataConfig& config) {
  const auto [train, validation] = split_text(text, config);
  auto train_tokens = tokenizer.encode(train), validation_tokens = tokenizer.encode(validation);
  if (std::ssize(train_tokens) <= config.context || validation_tokens.size() < 2)
    fail(Code::kInvalidArgument,
         "{}: {} training and {} validation tokens (the last 10 %) are too short for a context of "
         "{}, which needs {} and 2: give more text or a smaller context",
         config.path, train_tokens.size(), validation_tokens.size(), config.context,
         config.context + 1);
  return std::make_shared<TextDataset>(std::move(train_tokens), std::move(validation_tokens),
                                       config, tokenizer);
}

}  // namespace laconic::app::data
