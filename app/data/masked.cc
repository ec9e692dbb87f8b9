#include "app/data/masked.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "app/data/examples.h"
#include "app/data/rows.h"
#include "app/data/text.h"
#include "app/data/tsv.h"
#include "laconic/core/error.h"
#include "laconic/core/hash.h"

namespace laconic::app::data {
namespace {

bool is_text(std::int64_t token) { return token < kPadding || token >= kFirstMerge; }

void add_lines(std::string_view text, std::vector<std::string>& out) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) out.emplace_back(line);
  }
}

TokenRows packed(const Tokenizer& tokenizer, const std::vector<std::string>& sentences,
                 std::size_t length) {
  TokenRows rows;
  std::vector<Token> row = {kBegin};
  const auto flush = [&] {
    if (row.size() > 1) rows.add(row);
    row.resize(1);
  };
  for (const std::string& sentence : sentences) {
    const std::vector<Token> tokens = tokenizer.encode(sentence);
    for (std::size_t begin = 0; begin < tokens.size(); begin += length - 1) {
      const auto part =
          std::span(tokens).subspan(begin, std::min(length - 1, tokens.size() - begin));
      if (row.size() + 1 + part.size() > length) flush();
      if (row.size() > 1) row.push_back(kSeparator);
      row.insert(row.end(), part.begin(), part.end());
    }
  }
  flush();
  return rows;
}

class MaskedDataset final : public Dataset {
 public:
  MaskedDataset(const Tokenizer& tokenizer, const PlainSentences& sentences,
                const DataConfig& config)
      : threshold_(static_cast<std::uint64_t>(config.mask * 4294967296.0)),
        seed_(config.seed),
        origin_(config.path) {
    shape_.length = config.context;
    shape_.vocabulary = tokenizer.vocabulary();
    shape_.tokenizer = tokenizer.fingerprint();
    shape_.masked = true;
    shape_.padding = kPadding;
    Hash64 hash(static_cast<std::uint64_t>(config.context) ^ shape_.tokenizer);
    const auto length = static_cast<std::size_t>(config.context);
    splits_ = {packed(tokenizer, sentences.train, length),
               packed(tokenizer, sentences.validation, length)};
    for (const TokenRows& rows : splits_) {
      hash.add(std::as_bytes(rows.tokens()));
      hash.add(std::as_bytes(rows.ends()));
    }
    fingerprint_ = hash.value();
  }

  const DataShape& shape() const noexcept override { return shape_; }
  std::int64_t size(Split split) const noexcept override { return of(split).size(); }
  std::uint64_t fingerprint() const noexcept override { return fingerprint_; }

  std::string describe() const override {
    return fmt::format("mlm, {} + {} tokens ({} different) from {}, {} in a row",
                       with_commas(std::ssize(splits_[0].tokens())),
                       with_commas(std::ssize(splits_[1].tokens())), with_commas(shape_.vocabulary),
                       origin_, with_commas(shape_.length));
  }

  void read(Split split, std::span<const std::int64_t> examples, std::uint64_t draw,
            Batch& out) const override {
    check_examples(examples, size(split));
    const auto length = static_cast<std::size_t>(shape_.length);
    start_rows(out, examples.size(), length);
    out.targets.assign(examples.size() * length, kIgnored);
    for (std::size_t i = 0; i < examples.size(); ++i) {
      const auto row = of(split)[examples[i]];
      std::int64_t* tokens = out.tokens.data() + i * length;
      std::ranges::copy(row, tokens);
      if (split == Split::kTrain)
        mask(Purpose::kMask, seed_, draw, examples[i], {tokens, row.size()},
             out.targets.data() + i * length);
      else
        mask(Purpose::kValidationMask, 0, 0, examples[i], {tokens, row.size()},
             out.targets.data() + i * length);
    }
  }

 private:
  const TokenRows& of(Split split) const noexcept {
    return splits_[split == Split::kTrain ? 0 : 1];
  }

  void mask(Purpose purpose, std::uint32_t seed, std::uint64_t draw, std::int64_t example,
            std::span<std::int64_t> tokens, std::int64_t* targets) const noexcept {
    const auto bits_of = [&](std::size_t place) {
      return random_bits(purpose, seed, draw, example, static_cast<std::uint32_t>(place));
    };
    bool any = false;
    for (std::size_t place = 0; place < tokens.size(); ++place) {
      const auto bits = bits_of(place);
      if (!is_text(tokens[place]) || bits[0] >= threshold_) continue;
      targets[place] = tokens[place];
      tokens[place] = disguise(tokens[place], bits);
      any = true;
    }
    if (any) return;
    // An example that asks for nothing would have no loss. Every row has text after kBegin.
    const auto bits = bits_of(tokens.size());
    std::size_t place = 1 + below(static_cast<std::uint32_t>(tokens.size() - 1), bits[0]);
    if (!is_text(tokens[place])) ++place;  // a separator: what follows it is text
    targets[place] = tokens[place];
    tokens[place] = disguise(tokens[place], bits);
  }

  std::int64_t disguise(std::int64_t token, const PhiloxCounter& bits) const noexcept {
    const std::uint32_t tenth = below(10, bits[1]);
    if (tenth < 8) return kMask;
    if (tenth == 8) return token;
    constexpr int kSpecials = kFirstMerge - kPadding;
    const auto texts = static_cast<std::uint32_t>(shape_.vocabulary - kSpecials);
    const std::int64_t other = below(texts, bits[2]);
    return other < kPadding ? other : other + kSpecials;
  }

  std::uint64_t threshold_;
  std::uint32_t seed_;
  std::string origin_;
  std::array<TokenRows, 2> splits_;
  DataShape shape_;
  std::uint64_t fingerprint_;
};

}  // namespace

PlainSentences read_plain_sentences(const std::vector<std::string>& paths,
                                    const DataConfig& config) {
  PlainSentences all;
  for (const std::string& path : paths) {
    if (holds_sentences(path)) {
      const SentenceSplit split = read_sentences(path, config);
      for (const Sentence& sentence : split.train) all.train.push_back(sentence.text);
      for (const Sentence& sentence : split.validation) all.validation.push_back(sentence.text);
    } else {
      const std::string text = read_text(path);
      const auto [train, validation] = split_text(text, config);
      add_lines(train, all.train);
      add_lines(validation, all.validation);
    }
  }
  return all;
}

std::shared_ptr<const Dataset> make_masked_dataset(const Tokenizer& tokenizer,
                                                   const PlainSentences& sentences,
                                                   const DataConfig& config) {
  auto dataset = std::make_shared<MaskedDataset>(tokenizer, sentences, config);
  const std::int64_t train = dataset->size(Split::kTrain);
  const std::int64_t validation = dataset->size(Split::kValidation);
  if (train == 0 || validation == 0)
    fail(
        Code::kInvalidArgument,
        "{}: text for {} training and {} validation examples, at least 1 each is needed: give more "
        "text",
        config.path, train, validation);
  return dataset;
}

}  // namespace laconic::app::data
