#include <set>

#include "app/data/tokenizer.h"
#include "app/data/tsv.h"
#include "tests/app/data/data_files.h"

namespace laconic::app::data {
namespace {

namespace fs = std::filesystem;

class Sst2 : public ::testing::Test {
 protected:
  Sst2() {
    std::string train = "sentence\tlabel\n";
    for (int i = 0; i < 40; ++i)
      train += "it is number " + std::to_string(i) + " \t" + (i % 2 == 0 ? "0\n" : "1\n");
    write_text(train_, train);
    write_text(dev_, "label\tcontent\r\n1\tgood\r\n0\tbad\r\n");
    config_.task = "sst2";
    config_.path = scratch_.path();
    config_.context = 20;
    config_.cache = scratch_ / "cache";
  }

  void expect_refused(const std::string& text, const std::vector<std::string>& words) {
    write_text(train_, text);
    std::vector<std::string> all = words;
    all.push_back(train_.string());
    expect_says(thrown([&] { open_dataset(config_); }), Code::kCorrupt, all);
  }

  Scratch scratch_;
  const fs::path train_ = scratch_ / "train.tsv", dev_ = scratch_ / "dev.tsv";
  DataConfig config_;
};

std::string text_of(const Batch& batch, std::int64_t row, std::int64_t length) {
  std::vector<Token> tokens;
  for (std::int64_t i = 0; i < length; ++i)
    tokens.push_back(static_cast<Token>(batch.tokens[static_cast<std::size_t>(row * length + i)]));
  return Tokenizer().decode(tokens);
}

TEST_F(Sst2, ColumnsAreFoundByNameInEitherOrder) {
  const auto data = open_dataset(config_);
  EXPECT_EQ(data->shape().classes, 2);
  EXPECT_EQ(data->shape().padding, kPadding);
  EXPECT_FALSE(data->shape().masked);
  EXPECT_EQ(data->size(Split::kTrain), 40);
  const Batch train = batch_of(*data, Split::kTrain, {7, 8});
  EXPECT_EQ(train.targets, (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(text_of(train, 0, 20), "it is number 7");
  const Batch validation = all_of(*data, Split::kValidation);
  EXPECT_EQ(validation.targets, (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(text_of(validation, 1, 20), "bad");
  EXPECT_EQ(validation.tokens[0], kBegin);
  EXPECT_EQ(validation.tokens[4], 'd');
  for (std::size_t i = 5; i < 20; ++i) EXPECT_EQ(validation.tokens[i], kPadding);
}

TEST_F(Sst2, TheLabelColumnIsAlsoFoundByContent) {
  write_text(train_, "a\tb\n1\tfine\n0\t1\n");
  const auto sentences = read_tsv(train_);
  ASSERT_EQ(sentences.size(), 2U);
  EXPECT_EQ(sentences[0].text, "fine");
  EXPECT_EQ(sentences[0].label, 1);
  EXPECT_EQ(sentences[1].text, "1");
  write_text(train_, "index\tsentence\tlabel\n7\tfine\t1\n");
  EXPECT_EQ(read_tsv(train_)[0].text, "fine");
}

TEST_F(Sst2, LongSentencesAreCutToTheContext) {
  config_.context = 5;
  const Batch batch = batch_of(*open_dataset(config_), Split::kTrain, {0});
  EXPECT_EQ(batch.tokens, (std::vector<std::int64_t>{kBegin, 'i', 't', ' ', 'i'}));
}

TEST_F(Sst2, HeldOutSentencesAreTheSameInEveryRunAndInNoTrainingSet) {
  config_.held_out = 15;
  config_.context = 40;
  fs::remove(dev_);  // not read
  const auto data = open_dataset(config_);
  config_.seed = 9;
  const auto again = open_dataset(config_);
  EXPECT_EQ(data->fingerprint(), again->fingerprint());
  std::set<std::string> texts;
  for (const Split split : {Split::kTrain, Split::kValidation}) {
    const Batch batch = all_of(*data, split);
    for (std::int64_t i = 0; i < batch.size; ++i) texts.insert(text_of(batch, i, 40));
  }
  EXPECT_EQ(texts.size(), 40U);
  EXPECT_EQ(data->size(Split::kValidation), 15);
  EXPECT_NE(text_of(all_of(*data, Split::kValidation), 0, 40) +
                text_of(all_of(*data, Split::kValidation), 1, 40),
            "it is number 0it is number 1");
  config_.held_out = 40;
  expect_says(thrown([&] { open_dataset(config_); }), Code::kInvalidArgument, {"40 of 40"});
}

// What rates are chosen by has neither what is trained on nor what is reported in it.
TEST_F(Sst2, TheTuningSetIsHeldOutOfTheTrainingSentencesAlone) {
  config_.context = 40;
  const auto texts_of = [&](Split split) {
    const Batch batch = all_of(*open_dataset(config_), split);
    std::set<std::string> texts;
    for (std::int64_t i = 0; i < batch.size; ++i) texts.insert(text_of(batch, i, 40));
    return texts;
  };
  for (const std::int64_t held_out : {0, 10}) {
    config_.held_out = held_out;
    config_.validate_on = "validation";
    const auto reported = texts_of(Split::kValidation), before = texts_of(Split::kTrain);
    config_.validate_on = "tuning";
    auto tuning = texts_of(Split::kValidation), train = texts_of(Split::kTrain);
    EXPECT_EQ(std::ssize(tuning), (40 - held_out) / 10);
    for (const std::string& text : tuning) EXPECT_FALSE(reported.contains(text)) << text;
    train.merge(tuning);
    EXPECT_TRUE(tuning.empty());
    EXPECT_EQ(train, before);
  }
  config_.validate_on = "test";
  expect_says(thrown([&] { open_dataset(config_); }), Code::kInvalidArgument,
              {"test", "validation, tuning"});
}

TEST_F(Sst2, DamagedTablesAreRefusedWithFileAndLine) {
  expect_refused("label\tsentence\n1\tgood\n2\tbad\n", {":3:", "\"2\"", "0 or 1"});
  expect_refused("label\tsentence\n1\tgood\n\tbad\n", {":3:", "\"\""});
  expect_refused("label\tsentence\n1\tgood\n1\n", {":3:", "1 columns", "2"});
  expect_refused("label\tsentence\n1\tgood\tbad\n", {":2:", "3 columns", "2"});
  expect_refused("label\tsentence\n\n1\tgood\n", {":2:", "1 columns"});
  expect_refused("1\tgood\n0\tbad\n", {":1:", "names of the columns"});
  expect_refused("a\tb\nfine\tgood\n", {":1:", "\"a\", \"b\"", "\"label\""});
  expect_refused("label\ta\tb\n1\tgood\tx\n", {":1:", "\"sentence\""});
  expect_refused("label\tsentence\n", {"1 lines", "at least 2"});
  expect_refused("", {"0 lines"});
}

TEST_F(Sst2, MissingFilesAreNamedWithTheWayToGetThem) {
  fs::remove(dev_);
  expect_says(thrown([&] { open_dataset(config_); }), Code::kFile,
              {dev_.string(), "gluebenchmark.com", "--data DIR", "--data generated"});
}

TEST_F(Sst2, OtherLabelsHaveAnotherFingerprint) {
  const auto before = open_dataset(config_)->fingerprint();
  write_text(dev_, "label\tcontent\n1\tgood\n1\tbad\n");
  EXPECT_NE(open_dataset(config_)->fingerprint(), before);
}

TEST_F(Sst2, MaskedModelsOfTheSameDirectoryShareTheTokenizer) {
  config_.tokenizer = "bpe";
  const auto sst2 = open_dataset(config_);
  config_.held_out = 5;
  EXPECT_EQ(open_dataset(config_)->shape().tokenizer, sst2->shape().tokenizer);
  config_.task = "mlm";
  EXPECT_EQ(open_dataset(config_)->shape().tokenizer, sst2->shape().tokenizer);
  EXPECT_EQ(open_dataset(config_)->shape().vocabulary, sst2->shape().vocabulary);
}

TEST_F(Sst2, TokenizerDataLetsTasksOnDifferentPathsShareTheTokenizer) {
  const std::string text = scratch_ / "text.txt";
  std::string words;
  for (int i = 0; i < 300; ++i) words += "shall i compare thee to a day\n";
  write_text(text, words);
  config_.tokenizer = "bpe";
  const std::string directory = config_.path, both = directory + "," + text;
  const auto tokenizer = [&](const std::string& task, const std::string& path,
                             const std::string& tokenizer_data) {
    DataConfig config = config_;
    config.task = task;
    config.path = path;
    config.tokenizer_data = tokenizer_data;
    return open_dataset(config)->shape().tokenizer;
  };
  EXPECT_NE(tokenizer("mlm", both, ""), tokenizer("sst2", directory, ""));
  EXPECT_EQ(tokenizer("mlm", both, ""), tokenizer("sst2", directory, both));
  EXPECT_EQ(tokenizer("mlm", both, directory), tokenizer("sst2", directory, ""));
  EXPECT_EQ(tokenizer("text", text, both), tokenizer("sst2", directory, both));
}

TEST(RealSst2, HasTheSentencesOfGlue) {
  LACONIC_REAL_DATA(path, "sst2");
  DataConfig config;
  const SentenceSplit split = read_sentences(path, config);
  EXPECT_EQ(split.train.size(), 67349U);
  EXPECT_EQ(split.validation.size(), 872U);
  EXPECT_EQ(split.train[0].text, "hide new secretions from the parental units");
  EXPECT_EQ(split.validation[0].text, "one long string of cliches .");
  int positive = 0;
  for (const Sentence& sentence : split.validation) positive += sentence.label;
  EXPECT_EQ(positive, 444);
  config.held_out = 6735;
  const SentenceSplit held = read_sentences(path, config);
  EXPECT_EQ(held.train.size(), 67349U - 6735U);
  EXPECT_EQ(held.validation.size(), 6735U);
}

}  // namespace
}  // namespace laconic::app::data
