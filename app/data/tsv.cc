#include "app/data/tsv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "app/data/examples.h"
#include "app/data/files.h"
#include "app/data/generated.h"
#include "app/data/rows.h"
#include "laconic/core/error.h"
#include "laconic/core/hash.h"

namespace laconic::app::data {
namespace {

namespace fs = std::filesystem;
using Fields = std::vector<std::string_view>;

constexpr std::uint32_t kHeldOutSeed = 20;  // of the fixed shuffle

std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = text.find(mark);
    parts.push_back(text.substr(0, end));
    if (end != std::string_view::npos) text.remove_prefix(end + 1);
  }
  return parts;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \r");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

Fields fields_of(std::string_view line) {
  Fields fields = split(line, '\t');
  for (std::string_view& field : fields) field = trimmed(field);
  return fields;
}

bool is_label(std::string_view field) { return field == "0" || field == "1"; }

struct Columns {
  std::size_t label, sentence, count;
};

std::optional<std::size_t> position(const Fields& fields, auto what) {
  const auto found = std::find_if(fields.begin(), fields.end(), what);
  if (found == fields.end()) return {};
  return static_cast<std::size_t>(found - fields.begin());
}

Columns columns_of(const std::string& file, const Fields& header, const Fields& first) {
  if (position(header, is_label))
    fail(Code::kCorrupt, "{}:1: \"{}\" is a row, the names of the columns are expected", file,
         fmt::join(header, "\\t"));
  auto label = position(header, [](auto name) { return name == "label"; });
  if (!label && std::count_if(first.begin(), first.end(), is_label) == 1)
    label = position(first, is_label);
  auto sentence = position(header, [](auto name) { return name == "sentence"; });
  if (!sentence && label && header.size() == 2) sentence = 1 - *label;
  if (!label || !sentence || label == sentence)
    fail(Code::kCorrupt,
         "{}:1: columns \"{}\", needed are \"label\" and \"sentence\": name them so", file,
         fmt::join(header, "\", \""));
  return {*label, *sentence, header.size()};
}

class SentenceDataset final : public Dataset {
 public:
  SentenceDataset(const Tokenizer& tokenizer, const SentenceSplit& sentences,
                  const DataConfig& config)
      : origin_(config.path) {
    shape_.length = config.context;
    shape_.vocabulary = tokenizer.vocabulary();
    shape_.tokenizer = tokenizer.fingerprint();
    shape_.classes = 2;
    shape_.padding = kPadding;
    Hash64 hash(static_cast<std::uint64_t>(config.context) ^ shape_.tokenizer);
    add(tokenizer, sentences.train, splits_[0], hash);
    add(tokenizer, sentences.validation, splits_[1], hash);
    fingerprint_ = hash.value();
  }

  const DataShape& shape() const noexcept override { return shape_; }
  std::int64_t size(Split split) const noexcept override { return of(split).rows.size(); }
  std::uint64_t fingerprint() const noexcept override { return fingerprint_; }

  std::string describe() const override {
    return fmt::format("sst2, {} + {} sentences from {}, {} different tokens, {} in a row",
                       with_commas(splits_[0].rows.size()), with_commas(splits_[1].rows.size()),
                       origin_, with_commas(shape_.vocabulary), with_commas(shape_.length));
  }

  void read(Split split, std::span<const std::int64_t> examples, std::uint64_t /*draw*/,
            Batch& out) const override {
    check_examples(examples, size(split));
    const auto length = static_cast<std::size_t>(shape_.length);
    start_rows(out, examples.size(), length);
    out.targets.resize(examples.size());
    for (std::size_t i = 0; i < examples.size(); ++i) {
      std::ranges::copy(of(split).rows[examples[i]], out.tokens.data() + i * length);
      out.targets[i] = of(split).labels[static_cast<std::size_t>(examples[i])];
    }
  }

 private:
  struct Labelled {
    TokenRows rows;
    std::vector<std::uint8_t> labels;
  };

  const Labelled& of(Split split) const noexcept { return splits_[split == Split::kTrain ? 0 : 1]; }

  void add(const Tokenizer& tokenizer, const std::vector<Sentence>& sentences, Labelled& to,
           Hash64& hash) const {
    for (const Sentence& sentence : sentences) {
      std::vector<Token> row = tokenizer.encode(sentence.text);
      row.insert(row.begin(), kBegin);
      row.resize(std::min(row.size(), static_cast<std::size_t>(shape_.length)));
      to.rows.add(row);
      to.labels.push_back(sentence.label);
    }
    hash.add(std::as_bytes(to.rows.tokens()));
    hash.add(std::as_bytes(std::span(to.labels)));
  }

  std::array<Labelled, 2> splits_;
  std::string origin_;
  DataShape shape_;
  std::uint64_t fingerprint_;
};

SentenceSplit hold_out(std::vector<Sentence> all, std::int64_t held_out, const std::string& path) {
  const std::int64_t count = std::ssize(all);
  if (held_out >= count)
    fail(Code::kInvalidArgument,
         "{}: {} of {} training sentences cannot be held out: hold out fewer", path, held_out,
         count);
  const Order order(count, kHeldOutSeed);
  std::vector<bool> held(all.size());
  for (std::int64_t i = 0; i < held_out; ++i) held[static_cast<std::size_t>(order(i))] = true;
  SentenceSplit split;
  for (std::size_t i = 0; i < all.size(); ++i)
    (held[i] ? split.validation : split.train).push_back(std::move(all[i]));
  return split;
}

}  // namespace

std::vector<Sentence> read_tsv(const fs::path& path) {
  const std::string bytes = read_file(path), file = path.string();
  std::vector<std::string_view> lines = split(bytes, '\n');
  if (lines.back().empty()) lines.pop_back();
  if (lines.size() < 2)
    fail(Code::kCorrupt, "{} has {} lines, at least 2 (names and a row) are expected: get it anew",
         file, lines.size());
  const Columns columns = columns_of(file, fields_of(lines[0]), fields_of(lines[1]));
  std::vector<Sentence> sentences;
  sentences.reserve(lines.size() - 1);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const Fields fields = fields_of(lines[i]);
    if (fields.size() != columns.count)
      fail(Code::kCorrupt, "{}:{}: {} columns, line 1 names {}: mend the line", file, i + 1,
           fields.size(), columns.count);
    const std::string_view label = fields[columns.label];
    if (!is_label(label))
      fail(Code::kCorrupt, "{}:{}: label \"{}\", not 0 or 1: mend the line", file, i + 1, label);
    sentences.push_back(
        {std::string(fields[columns.sentence]), static_cast<std::uint8_t>(label == "1" ? 1 : 0)});
  }
  return sentences;
}

SentenceSplit read_sentences(const std::string& path, const DataConfig& config) {
  const bool generated = path == kGenerated;
  const fs::path directory = path;
  SentenceSplit split;
  split.train = generated ? generated_sentences(Split::kTrain) : read_tsv(directory / "train.tsv");
  if (config.held_out > 0) split = hold_out(std::move(split.train), config.held_out, path);
  if (config.tuning()) {
    const std::int64_t tenth = std::max<std::int64_t>(1, std::ssize(split.train) / 10);
    return hold_out(std::move(split.train), tenth, path);
  }
  if (config.held_out > 0) return split;
  split.validation =
      generated ? generated_sentences(Split::kValidation) : read_tsv(directory / "dev.tsv");
  return split;
}

bool holds_sentences(const std::string& path) {
  std::error_code ignored;
  return path == kGenerated || fs::exists(fs::path(path) / "train.tsv", ignored);
}

std::shared_ptr<const Dataset> make_sentence_dataset(const Tokenizer& tokenizer,
                                                     const SentenceSplit& sentences,
                                                     const DataConfig& config) {
  return std::make_shared<SentenceDataset>(tokenizer, sentences, config);
}

}  // namespace laconic::app::data
