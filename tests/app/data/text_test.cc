#include "app/data/text.h"

#include <set>

#include "tests/app/data/data_files.h"

namespace laconic::app::data {
namespace {

namespace fs = std::filesystem;

// Bytes i modulo 251: of a byte follows its place, up to multiples of 251.
std::string counting(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text.push_back(static_cast<char>(i % 251));
  return text;
}

class Text : public ::testing::Test {
 protected:
  Text() {
    config_.task = "text";
    config_.path = scratch_ / "text";
    config_.context = 16;
    config_.cache = scratch_ / "cache";
  }
  Scratch scratch_;
  DataConfig config_;
};

TEST_F(Text, TargetsAreTheNextTokens) {
  write_text(config_.path, counting(1000));
  const auto data = open_dataset(config_);
  EXPECT_EQ(data->shape().vocabulary, 260);
  EXPECT_EQ(data->shape().length, 16);
  EXPECT_EQ(data->shape().classes, 0);
  EXPECT_FALSE(data->shape().masked);
  const Batch batch = all_of(*data, Split::kTrain);
  ASSERT_EQ(std::ssize(batch.tokens), batch.size * 16);
  ASSERT_EQ(batch.tokens.size(), batch.targets.size());
  for (std::size_t i = 0; i < batch.tokens.size(); ++i)
    EXPECT_EQ(batch.targets[i], (batch.tokens[i] + 1) % 251);
}

TEST_F(Text, ValidationAsksForEachTokenOfTheLastTenthOnce) {
  for (const std::size_t size : {1000U, 1010U, 1610U, 1620U}) {
    write_text(config_.path, counting(size));
    const Batch batch = all_of(*open_dataset(config_), Split::kValidation, 5);
    std::vector<std::int64_t> asked, wanted;
    for (const std::int64_t target : batch.targets)
      if (target != kIgnored) asked.push_back(target);
    for (std::size_t i = size - size / 10 + 1; i < size; ++i)
      wanted.push_back(static_cast<std::int64_t>(i % 251));
    EXPECT_EQ(asked, wanted) << size;
  }
}

TEST_F(Text, TheTuningSetIsTheLastTenthOfTheTrainingPart) {
  write_text(config_.path, std::string(810, 'a') + std::string(90, 'b') + std::string(100, 'c'));
  config_.validate_on = "tuning";
  const auto data = open_dataset(config_);
  for (const std::int64_t token : all_of(*data, Split::kTrain).tokens) EXPECT_EQ(token, 'a');
  for (const std::int64_t target : all_of(*data, Split::kValidation).targets)
    EXPECT_TRUE(target == kIgnored || target == 'b') << target;
  config_.task = "mlm";
  std::string lines;
  for (const char letter : {'a', 'b', 'c'})
    for (int i = 0; i < (letter == 'a' ? 81 : letter == 'b' ? 9 : 10); ++i)
      lines += std::string(9, letter) + '\n';
  write_text(config_.path, lines);
  config_.mask = 0.001;
  const auto masked = open_dataset(config_);
  for (const Split split : {Split::kTrain, Split::kValidation})
    for (const std::int64_t target : all_of(*masked, split).targets)
      EXPECT_TRUE(target == kIgnored || target == (split == Split::kTrain ? 'a' : 'b'));
}

TEST_F(Text, TrainingWindowsAreCutAnewInEachDrawAndStayInTheTrainingPart) {
  write_text(config_.path, std::string(900, 'a') + std::string(100, 'b'));
  const auto letters = open_dataset(config_);
  for (std::uint64_t draw = 0; draw < 50; ++draw)
    for (const std::int64_t target : all_of(*letters, Split::kTrain, draw).targets)
      ASSERT_EQ(target, 'a');
  write_text(config_.path, counting(240));  // 216 for training
  const auto data = open_dataset(config_);
  ASSERT_EQ(data->size(Split::kTrain), 13);
  std::set<std::int64_t> begins;
  std::int64_t last = 0;
  for (std::uint64_t draw = 0; draw < 400; ++draw) {
    const Batch batch = all_of(*data, Split::kTrain, draw);
    begins.insert(batch.tokens[3 * 16]);
    last = std::max(last, batch.targets.back());
    for (std::int64_t i = 0; i < 12; ++i) {
      EXPECT_GE(batch.tokens[static_cast<std::size_t>(i * 16)], i * 16);
      EXPECT_LT(batch.tokens[static_cast<std::size_t>(i * 16)], (i + 1) * 16);
    }
  }
  EXPECT_EQ(begins.size(), 16U);
  EXPECT_EQ(last, 215);
}

TEST_F(Text, AnyStepCanBeReadFirst) {
  write_text(config_.path, counting(5000));
  const auto data = open_dataset(config_), again = open_dataset(config_);
  const Order order(data->size(Split::kTrain), 7);
  std::vector<Batch> batches;
  for (std::int64_t step = 1; step <= 30; ++step)
    batches.push_back(batch_of(*data, Split::kTrain, examples_of(order, step, 1, 2, 4),
                               static_cast<std::uint64_t>(step)));
  for (std::int64_t step = 30; step >= 1; --step)
    EXPECT_EQ(batch_of(*again, Split::kTrain, examples_of(order, step, 1, 2, 4),
                       static_cast<std::uint64_t>(step))
                  .tokens,
              batches[static_cast<std::size_t>(step - 1)].tokens);
}

TEST_F(Text, FilesOfADirectoryAreReadByName) {
  fs::create_directory(config_.path);
  const fs::path folder = config_.path;
  write_text(folder / "b.txt", "second ");
  write_text(folder / "a.txt", "first ");
  write_text(folder / ".hidden", "hidden");
  fs::create_directory(folder / "c");
  EXPECT_EQ(read_text(folder), "first second ");
}

TEST_F(Text, AnEmptyDirectoryIsRefused) {
  fs::create_directory(config_.path);
  expect_says(thrown([&] { open_dataset(config_); }), Code::kInvalidArgument,
              {config_.path, "0 files", "at least 1"});
}

TEST_F(Text, ATextShorterThanTheContextIsRefusedWithBothLengths) {
  write_text(config_.path, counting(17));
  expect_says(thrown([&] { open_dataset(config_); }), Code::kInvalidArgument,
              {config_.path, "16 training", "context of 16", "17", "smaller context"});
  write_text(config_.path, "");
  expect_says(thrown([&] { open_dataset(config_); }), Code::kInvalidArgument, {"0 training"});
  write_text(config_.path, counting(20));
  EXPECT_EQ(open_dataset(config_)->size(Split::kTrain), 1);
}

TEST_F(Text, AMissingFileIsNamedWithTheWayToGoOn) {
  expect_says(thrown([&] { open_dataset(config_); }), Code::kFile,
              {config_.path, "No such file", "--data PATH", "--data generated"});
  config_.path.clear();
  expect_says(thrown([&] { open_dataset(config_); }), Code::kFile, {"text", "--data generated"});
}

TEST_F(Text, OtherTextContextOrTokenizerHasAnotherFingerprint) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "word " + std::to_string(i % 7);
  write_text(config_.path, text);
  std::set<std::uint64_t> seen = {open_dataset(config_)->fingerprint()};
  EXPECT_FALSE(seen.insert(open_dataset(config_)->fingerprint()).second);
  config_.context = 17;
  EXPECT_TRUE(seen.insert(open_dataset(config_)->fingerprint()).second);
  config_.tokenizer = "bpe";
  EXPECT_TRUE(seen.insert(open_dataset(config_)->fingerprint()).second);
  text.back() = 'x';
  write_text(config_.path, text);
  EXPECT_TRUE(seen.insert(open_dataset(config_)->fingerprint()).second);
}

TEST_F(Text, SettingsOutOfRangeAreRefused) {
  write_text(config_.path, counting(1000));
  const auto refused = [&](auto change, const std::vector<std::string>& words) {
    DataConfig config = config_;
    change(config);
    expect_says(thrown([&] { open_dataset(config); }), Code::kInvalidArgument, words);
  };
  refused([](DataConfig& c) { c.task = "txt"; }, {"\"txt\"", "\"text\"", "fashion-mnist"});
  refused([](DataConfig& c) { c.tokenizer = "bpo"; }, {"\"bpo\"", "\"bpe\""});
  refused([](DataConfig& c) { c.context = 1; }, {"context = 1", "from 2"});
  refused([](DataConfig& c) { c.vocabulary = 100; }, {"vocabulary = 100", "260"});
  refused([](DataConfig& c) { c.mask = 0; }, {"mask = 0"});
  refused([](DataConfig& c) { c.held_out = -1; }, {"held_out = -1"});
}

TEST_F(Text, RealTextHasItsLastTenthForValidation) {
  LACONIC_REAL_DATA(path, "shakespeare.txt");
  config_.path = path;
  config_.context = 128;
  config_.tokenizer = "bpe";
  const auto data = open_dataset(config_);
  EXPECT_EQ(data->shape().vocabulary, 2048);
  const std::string text = read_text(path);
  std::vector<Token> tokens;
  const Batch batch = all_of(*data, Split::kValidation);
  for (std::size_t i = 0; i < batch.targets.size(); ++i)
    if (batch.targets[i] != kIgnored) tokens.push_back(static_cast<Token>(batch.targets[i]));
  const auto [train, validation] = split_text(text);
  const std::string decoded =
      train_or_load(std::string(train) + '\n', 2048, config_.cache).decode(tokens);
  EXPECT_TRUE(validation.ends_with(decoded));
  EXPECT_GT(decoded.size() + 64, validation.size());
}

}  // namespace
}  // namespace laconic::app::data
