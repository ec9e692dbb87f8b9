#include <algorithm>
#include <cstdlib>
#include <optional>
#include <queue>

#include "app/data/files.h"
#include "app/data/tokenizer.h"
#include "app/data/words.h"
#include "laconic/core/error.h"
#include "laconic/core/hash.h"

namespace laconic::app::data {
namespace {

namespace fs = std::filesystem;

// Counts pairs within words. Each distinct word is kept once; when a pair is merged, only words
// that have it are visited, and a heap of (count, pair), whose entries may be out of date, gives
// the next.
class Trainer {
 public:
  explicit Trainer(std::string_view text) {
    std::unordered_map<std::string_view, std::int64_t> counts;
    for_each_word(text, [&](std::string_view word) { ++counts[word]; });
    words_.reserve(counts.size());
    for (const auto& [letters, count] : counts) {
      Word word{{}, count};
      for (const char c : letters) word.tokens.push_back(static_cast<unsigned char>(c));
      words_.push_back(std::move(word));
    }
    for (std::size_t i = 0; i < words_.size(); ++i) count(i, 1);
    offer_changed();
  }

  // The most frequent pair that occurs twice, of equals the smaller one.
  std::optional<Tokenizer::Merge> best() {
    while (!heap_.empty()) {
      const auto [count, flipped] = heap_.top();
      const std::uint32_t key = ~flipped;
      if (count < 2) return {};
      if (pairs_[key].count == count)
        return Tokenizer::Merge{static_cast<Token>(key >> 16), static_cast<Token>(key)};
      heap_.pop();
    }
    return {};
  }

  void merge(Tokenizer::Merge pair, Token made) {
    const std::vector<std::size_t> words =
        std::move(pairs_[pair_key(pair.first, pair.second)].words);
    for (const std::size_t i : words) {
      if (words_[i].merged == made) continue;  // listed twice
      words_[i].merged = made;
      count(i, -1);
      merge_pair(words_[i].tokens, pair.first, pair.second, made);
      count(i, 1);
    }
    offer_changed();
  }

 private:
  struct Word {
    std::vector<Token> tokens;
    std::int64_t count;
    Token merged = 0;  // the last merge that visited it
  };
  struct Pair {
    std::int64_t count = 0;
    std::vector<std::size_t> words;  // all that have it; also some that had it
  };

  void count(std::size_t i, std::int64_t sign) {
    const Word& word = words_[i];
    for (std::size_t t = 0; t + 1 < word.tokens.size(); ++t) {
      const std::uint32_t key = pair_key(word.tokens[t], word.tokens[t + 1]);
      Pair& pair = pairs_[key];
      pair.count += sign * word.count;
      if (sign > 0 && (pair.words.empty() || pair.words.back() != i)) pair.words.push_back(i);
      changed_.push_back(key);
    }
  }

  void offer_changed() {
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const std::uint32_t key : changed_) heap_.emplace(pairs_[key].count, ~key);
    changed_.clear();
  }

  std::vector<Word> words_;
  std::unordered_map<std::uint32_t, Pair> pairs_;
  std::vector<std::uint32_t> changed_;
  std::priority_queue<std::pair<std::int64_t, std::uint32_t>> heap_;
};

// A cached tokenizer: magic, key, merges, hash of all before it; little-endian.
constexpr std::string_view kMagic = "laconic bpe 1\n";

template <typename T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xFF));
}

std::string packed(const Tokenizer& tokenizer, std::uint64_t key) {
  std::string out(kMagic);
  put(out, key);
  for (const auto& [left, right] : tokenizer.merges()) {
    put(out, left);
    put(out, right);
  }
  put(out, hash64(std::as_bytes(std::span(out))));
  return out;
}

// Nothing if these are not the bytes of `packed` for this key.
std::optional<Tokenizer> unpacked(const std::string& bytes, std::uint64_t key) {
  std::string head(kMagic);
  put(head, key);
  const std::size_t around = head.size() + sizeof(std::uint64_t);
  if (!bytes.starts_with(head) || bytes.size() < around || (bytes.size() - around) % 4 != 0)
    return {};
  std::string tail;
  const std::size_t end = bytes.size() - sizeof(std::uint64_t);
  put(tail, hash64(std::as_bytes(std::span(bytes.data(), end))));
  if (!bytes.ends_with(tail)) return {};
  const auto token = [&](std::size_t at) {
    return static_cast<Token>(static_cast<unsigned char>(bytes[at]) |
                              static_cast<unsigned char>(bytes[at + 1]) << 8);
  };
  std::vector<Tokenizer::Merge> merges;
  for (std::size_t at = head.size(); at < end; at += 4)
    merges.emplace_back(token(at), token(at + 2));
  return Tokenizer(std::move(merges));
}

std::optional<Tokenizer> load(const fs::path& path, std::uint64_t key) {
  try {
    return unpacked(read_file(path), key);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

Tokenizer Tokenizer::train(std::string_view text, std::int64_t vocabulary) {
  if (vocabulary < kFirstMerge || vocabulary > kLargestVocabulary)
    fail(Code::kInvalidArgument, "a vocabulary of {} tokens: it must be from {} to {}", vocabulary,
         kFirstMerge, kLargestVocabulary);
  Trainer trainer(text);
  std::vector<Merge> merges;
  while (kFirstMerge + std::ssize(merges) < vocabulary) {
    const auto pair = trainer.best();
    if (!pair) break;
    trainer.merge(*pair, static_cast<Token>(kFirstMerge + merges.size()));
    merges.push_back(*pair);
  }
  return Tokenizer(std::move(merges));
}

Tokenizer train_or_load(std::string_view text, std::int64_t vocabulary, const fs::path& directory) {
  if (directory.empty()) return Tokenizer::train(text, vocabulary);
  const std::uint64_t key =
      hash64(std::as_bytes(std::span(text)), static_cast<std::uint64_t>(vocabulary));
  const fs::path path = directory / fmt::format("bpe-{}-{:016x}", vocabulary, key);
  if (auto cached = load(path, key)) return *std::move(cached);
  Tokenizer tokenizer = Tokenizer::train(text, vocabulary);
  try {
    write_file(path, packed(tokenizer, key));
  } catch (const Error&) {
    // A cache only saves time: a directory that cannot be written must not stop training.
  }
  return tokenizer;
}

fs::path user_cache_directory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return fs::path(cache) / "laconic";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / ".cache" / "laconic";
  return {};
}

}  // namespace laconic::app::data
