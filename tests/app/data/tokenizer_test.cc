#include "app/data/tokenizer.h"

#include <random>

#include "app/data/text.h"
#include "app/data/words.h"
#include "laconic/core/hash.h"
#include "tests/app/data/data_files.h"

namespace laconic::app::data {
namespace {

namespace fs = std::filesystem;

std::string all_bytes() {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  return text;
}

std::string many_words() {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += "the cat sat on the mat , the other cat " + std::to_string(i * i) + " did not !\n";
  return text;
}

TEST(Words, AreTheWholeTextInOrder) {
  std::mt19937 random(1);
  const std::string letters = "ab1 \n.,\xC3\xA4\t";
  for (int round = 0; round < 200; ++round) {
    std::string text, joined;
    for (int i = 0; i < 300; ++i) text.push_back(letters[random() % letters.size()]);
    for_each_word(text, [&](std::string_view word) {
      ASSERT_FALSE(word.empty());
      ASSERT_LE(word.size(), kLongestWord);
      joined += word;
    });
    ASSERT_EQ(joined, text);
  }
}

TEST(Words, TakeTheSpaceBeforeThem) {
  std::vector<std::string> words;
  for_each_word("to be,  or 12x\n\nnot ", [&](std::string_view word) { words.emplace_back(word); });
  EXPECT_EQ(words, (std::vector<std::string>{"to", " be", ",", " ", " or", " 12", "x", "\n\n",
                                             "not", " "}));
}

TEST(Tokenizer, BytesAreTheirOwnTokens) {
  const Tokenizer bytes;
  EXPECT_EQ(bytes.vocabulary(), 260);
  const auto tokens = bytes.encode(all_bytes());
  ASSERT_EQ(tokens.size(), 256U);
  for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(tokens[i], i);
  EXPECT_EQ(bytes.decode(tokens), all_bytes());
  EXPECT_TRUE(bytes.encode("").empty());
}

TEST(Tokenizer, AnyBytesComeBack) {
  const Tokenizer trained = Tokenizer::train(many_words(), 400);
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 500; ++i) text.push_back(static_cast<char>(random()));
    ASSERT_EQ(trained.decode(trained.encode(text)), text);
  }
  EXPECT_EQ(trained.decode(trained.encode(many_words())), many_words());
}

TEST(Tokenizer, MergesTheMostFrequentPairAndOfEqualsTheSmaller) {
  const Tokenizer trained = Tokenizer::train("xy xy xy ab ab cd cd", 262);
  ASSERT_EQ(trained.merges().size(), 2U);
  EXPECT_EQ(trained.merges()[0], (Tokenizer::Merge{'x', 'y'}));
  EXPECT_EQ(trained.merges()[1], (Tokenizer::Merge{' ', 'a'}));
}

TEST(Tokenizer, CountsOverlappingPairsWithoutLosingAny) {
  const Tokenizer trained = Tokenizer::train("aaaa\naaaa\naaa", 300);
  for (const std::string text : {"a", "aa", "aaa", "aaaa", "aaaaa", " aaaa"})
    EXPECT_EQ(trained.decode(trained.encode(text)), text);
  EXPECT_EQ(trained.encode("aaaa").size(), 1U);
}

TEST(Tokenizer, FrequentWordsBecomeOneToken) {
  const Tokenizer trained = Tokenizer::train(many_words(), 300);
  EXPECT_EQ(trained.encode(" the").size(), 1U);
  EXPECT_EQ(trained.encode(" cat").size(), 1U);
  EXPECT_EQ(trained.encode(" the cat").size(), 2U);  // never across words
}

TEST(Tokenizer, StopsWhenNoPairOccursTwice) {
  const Tokenizer trained = Tokenizer::train("ab ab", 1000);
  EXPECT_LT(trained.vocabulary(), 265);
  EXPECT_EQ(Tokenizer::train("", 1000).vocabulary(), kFirstMerge);
}

TEST(Tokenizer, TrainingIsDeterministic) {
  const Tokenizer one = Tokenizer::train(many_words(), 350),
                  two = Tokenizer::train(many_words(), 350);
  EXPECT_TRUE(std::ranges::equal(one.merges(), two.merges()));
  EXPECT_EQ(one.fingerprint(), two.fingerprint());
  EXPECT_NE(one.fingerprint(), Tokenizer::train(many_words(), 349).fingerprint());
  EXPECT_NE(one.fingerprint(), Tokenizer().fingerprint());
}

TEST(Tokenizer, AnyTextWithoutSpacesIsTrainedOnQuickly) {
  const std::string text(1 << 20, 'a');
  const Tokenizer trained = Tokenizer::train(text, 2048);
  EXPECT_EQ(trained.decode(trained.encode(text)), text);
}

TEST(Tokenizer, ImpossibleVocabulariesAndMergesAreRefused) {
  expect_says(thrown([] { Tokenizer::train("ab", 259); }), Code::kInvalidArgument, {"259", "260"});
  expect_says(thrown([] { Tokenizer::train("ab", 65537); }), Code::kInvalidArgument, {"65536"});
  using Merges = std::vector<Tokenizer::Merge>;
  expect_says(thrown([] { Tokenizer(Merges{{'a', 260}}); }), Code::kCorrupt, {"260"});
  expect_says(thrown([] { Tokenizer(Merges{{'a', kMask}}); }), Code::kCorrupt, {"259"});
}

class Cache : public ::testing::Test {
 protected:
  fs::path file() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(scratch_ / "cache")) files.push_back(entry);
    EXPECT_EQ(files.size(), 1U);
    return files.at(0);
  }
  Tokenizer load() const { return train_or_load(text_, 300, scratch_ / "cache"); }

  Scratch scratch_;
  const std::string text_ = many_words();
};

TEST_F(Cache, ServesWhatWasTrainedAndIsNotWrittenAgain) {
  const Tokenizer first = load();
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(48);
  fs::last_write_time(file(), long_ago);
  const auto written = fs::last_write_time(file());
  EXPECT_EQ(load().fingerprint(), first.fingerprint());
  EXPECT_EQ(fs::last_write_time(file()), written);
}

TEST_F(Cache, ADamagedFileIsMadeAnew) {
  const Tokenizer first = load();
  const std::string good = laconic::testing::read_text(file());
  for (std::size_t at = 0; at < good.size(); at += 3) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    for (const std::string& bad : {damaged, good.substr(0, at)}) {
      write_text(file(), bad);
      ASSERT_EQ(load().fingerprint(), first.fingerprint()) << at;
      ASSERT_EQ(laconic::testing::read_text(file()), good) << at;
    }
  }
}

// Each token twice the one before: 40 of them would stand for a terabyte.
TEST_F(Cache, AFileThatAsksForATerabyteIsMadeAnew) {
  const Tokenizer first = load();
  const std::string good = laconic::testing::read_text(file());
  std::string bad = good.substr(0, 22);  // magic and key
  for (std::size_t token = 259; token < 299; ++token) {
    const auto part = static_cast<Token>(token == 259 ? 'a' : token);
    for (const Token half : {part, part})
      bad.append(reinterpret_cast<const char*>(&half), sizeof half);
  }
  const std::uint64_t hash = hash64(std::as_bytes(std::span(bad)));
  write_text(file(), bad.append(reinterpret_cast<const char*>(&hash), sizeof hash));
  EXPECT_EQ(load().fingerprint(), first.fingerprint());
  EXPECT_EQ(laconic::testing::read_text(file()), good);
}

TEST_F(Cache, OtherTextOrVocabularyIsAnotherFile) {
  load();
  train_or_load(text_, 301, scratch_ / "cache");
  train_or_load(text_ + "x", 300, scratch_ / "cache");
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch_ / "cache"), {}), 3);
}

TEST_F(Cache, ADirectoryThatCannotBeWrittenOnlyCostsTime) {
  write_text(scratch_ / "cache", "a file, not a directory");
  EXPECT_EQ(load().fingerprint(), Tokenizer::train(text_, 300).fingerprint());
  EXPECT_EQ(train_or_load(text_, 300, "").fingerprint(), load().fingerprint());
}

TEST(Tokenizer, RealTextComesBackInFewerTokens) {
  LACONIC_REAL_DATA(path, "shakespeare.txt");
  const std::string text = read_text(path);
  const Tokenizer trained = Tokenizer::train(text, 2048);
  EXPECT_EQ(trained.vocabulary(), 2048);
  const auto tokens = trained.encode(text);
  EXPECT_EQ(trained.decode(tokens), text);
  EXPECT_LT(tokens.size(), text.size() * 2 / 5);
  EXPECT_EQ(Tokenizer().decode(Tokenizer().encode(text)), text);
}

}  // namespace
}  // namespace laconic::app::data
