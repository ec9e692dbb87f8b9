#include "app/data/masked.h"

#include "tests/app/data/data_files.h"

namespace laconic::app::data {
namespace {

bool is_text(std::int64_t token) { return token < kPadding || token >= kFirstMerge; }

class Masked : public ::testing::Test {
 protected:
  Masked() {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "line " + std::to_string(i * 7919 % 10007) + " of it\n";
    write_text(scratch_ / "text", text);
    config_.task = "mlm";
    config_.path = scratch_ / "text";
    config_.context = 64;
    config_.cache = scratch_ / "cache";
  }
  Scratch scratch_;
  DataConfig config_;
};

TEST_F(Masked, FrequenciesAreThoseOfBert) {
  for (const std::string tokenizer : {"byte", "bpe"}) {
    config_.tokenizer = tokenizer;
    const auto data = open_dataset(config_);
    EXPECT_TRUE(data->shape().masked);
    double texts = 0, asked = 0, hidden = 0, kept = 0, replaced = 0;
    for (std::uint64_t draw = 0; draw < 10; ++draw) {
      const Batch batch = all_of(*data, Split::kTrain, draw);
      for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
        const std::int64_t token = batch.tokens[i], target = batch.targets[i];
        texts += target != kIgnored || is_text(token) ? 1 : 0;
        if (target == kIgnored) {
          ASSERT_NE(token, kMask);
          continue;
        }
        ASSERT_TRUE(is_text(target));
        ASSERT_TRUE(token == kMask || is_text(token));
        ASSERT_LT(token, data->shape().vocabulary);
        asked += 1;
        hidden += token == kMask ? 1 : 0;
        kept += token == target ? 1 : 0;
        replaced += token != kMask && token != target ? 1 : 0;
      }
    }
    EXPECT_NEAR(asked / texts, 0.15, 0.005) << tokenizer;
    EXPECT_NEAR(hidden / asked, 0.8, 0.01) << tokenizer;
    EXPECT_NEAR(kept / asked, 0.1, 0.01) << tokenizer;
    EXPECT_NEAR(replaced / asked, 0.1, 0.01) << tokenizer;
  }
}

TEST_F(Masked, RandomTokensAreAnyButTheSpecialOnes) {
  config_.mask = 1;
  const auto data = open_dataset(config_);
  std::vector<int> counts(260);
  double all = 0;
  for (std::uint64_t draw = 0; draw < 20; ++draw) {
    const Batch batch = all_of(*data, Split::kTrain, draw);
    for (std::size_t i = 0; i < batch.tokens.size(); ++i)
      if (batch.targets[i] != kIgnored && batch.tokens[i] != kMask &&
          batch.tokens[i] != batch.targets[i]) {
        ++counts[static_cast<std::size_t>(batch.tokens[i])];
        ++all;
      }
  }
  for (std::size_t byte = 0; byte < 256; ++byte)
    EXPECT_NEAR(counts[byte], all / 256, all / 256 * 0.5) << byte;
}

TEST_F(Masked, ExamplesAreWholeLinesWithSeparatorsBetween) {
  config_.mask = 0.001;
  const auto data = open_dataset(config_);
  Batch batch = all_of(*data, Split::kTrain);
  std::string all;
  for (std::int64_t row = 0; row < batch.size; ++row) {
    std::vector<Token> tokens;
    for (std::size_t i = 0; i < 64; ++i) {
      const auto at = static_cast<std::size_t>(row * 64) + i;
      const std::int64_t token =
          batch.targets[at] == kIgnored ? batch.tokens[at] : batch.targets[at];
      if (token == kSeparator) tokens.push_back('\n');
      if (is_text(token)) tokens.push_back(static_cast<Token>(token));
    }
    ASSERT_EQ(batch.tokens[static_cast<std::size_t>(row * 64)], kBegin);
    all += Tokenizer().decode(tokens) + '\n';
  }
  const std::string text = laconic::testing::read_text(config_.path);
  EXPECT_EQ(all.substr(0, 20000), text.substr(0, 20000));
  EXPECT_GT(all.size(), text.size() * 9 / 10 - 5);
}

TEST_F(Masked, EveryExampleAsksForSomething) {
  config_.mask = 0.001;
  const auto data = open_dataset(config_);
  for (std::uint64_t draw = 0; draw < 20; ++draw) {
    const Batch batch = all_of(*data, Split::kTrain, draw);
    for (std::int64_t row = 0; row < batch.size; ++row) {
      int asked = 0;
      for (std::size_t i = 0; i < 64; ++i)
        asked += batch.targets[static_cast<std::size_t>(row * 64) + i] != kIgnored ? 1 : 0;
      ASSERT_GE(asked, 1);
    }
  }
}

TEST_F(Masked, DrawAndSeedKeyMasksAndValidationIgnoresBoth) {
  const auto data = open_dataset(config_);
  config_.seed = 5;
  const auto other = open_dataset(config_);
  const Batch batch = all_of(*data, Split::kTrain, 1);
  EXPECT_EQ(batch.tokens, all_of(*data, Split::kTrain, 1).tokens);
  EXPECT_NE(batch.tokens, all_of(*data, Split::kTrain, 2).tokens);
  EXPECT_NE(batch.tokens, all_of(*data, Split::kTrain, std::uint64_t{1} << 32 | 1).tokens);
  EXPECT_NE(batch.tokens, all_of(*other, Split::kTrain, 1).tokens);
  EXPECT_EQ(all_of(*data, Split::kValidation, 1).tokens,
            all_of(*other, Split::kValidation, 2).tokens);
}

TEST_F(Masked, AnExampleIsMaskedAlikeInAnyBatch) {
  const auto data = open_dataset(config_);
  const Batch many = batch_of(*data, Split::kTrain, {4, 9, 2}, 7);
  const Batch one = batch_of(*data, Split::kTrain, {9}, 7);
  EXPECT_TRUE(std::equal(one.tokens.begin(), one.tokens.end(), many.tokens.begin() + 64));
  EXPECT_TRUE(std::equal(one.targets.begin(), one.targets.end(), many.targets.begin() + 64));
}

TEST_F(Masked, SentencesOfSeveralPathsAreTakenTogether) {
  write_text(scratch_ / "train.tsv", "label\tsentence\n1\tgood\n0\tbad\n1\tfine\n");
  write_text(scratch_ / "dev.tsv", "label\tsentence\n1\tso so\n");
  write_text(scratch_ / "ten", "1\n2\n\n3\n4\n5\n6\n7\n8\n9\n");
  const auto all = read_plain_sentences({scratch_.path(), scratch_ / "ten"}, {});
  EXPECT_EQ(all.train, (std::vector<std::string>{"good", "bad", "fine", "1", "2", "3", "4", "5",
                                                 "6", "7", "8", "9"}));
  EXPECT_EQ(all.validation, (std::vector<std::string>{"so so"}));
  const auto held = read_plain_sentences({scratch_.path()}, {.held_out = 1});
  EXPECT_EQ(held.train.size(), 2U);
  EXPECT_EQ(held.validation.size(), 1U);
}

TEST_F(Masked, TextWithoutLinesForBothSplitsIsRefused) {
  write_text(config_.path, "one");
  expect_says(thrown([&] { open_dataset(config_); }), Code::kInvalidArgument,
              {config_.path, "1 training", "0 validation"});
  config_.path += ",generated,/nowhere/at/all";
  expect_says(thrown([&] { open_dataset(config_); }), Code::kFile,
              {"/nowhere/at/all", "--data generated"});
}

TEST_F(Masked, RealSentencesAndTextArePackedAndShareTheTokenizer) {
  LACONIC_REAL_DATA(sst2, "sst2");
  LACONIC_REAL_DATA(text, "shakespeare.txt");
  config_.path = sst2 + "," + text;
  config_.tokenizer = "bpe";
  config_.held_out = 6735;
  const auto masked = open_dataset(config_);
  config_.task = "sst2";
  config_.tokenizer_data = config_.path;
  config_.path = sst2;
  EXPECT_EQ(open_dataset(config_)->shape().tokenizer, masked->shape().tokenizer);
  const Batch batch = batch_of(*masked, Split::kTrain, first_examples(1000));
  std::int64_t padding = 0;
  for (const std::int64_t token : batch.tokens) padding += token == kPadding ? 1 : 0;
  EXPECT_LT(padding, 64 * 1000 / 5);  // packed, not one sentence a row
}

}  // namespace
}  // namespace laconic::app::data
