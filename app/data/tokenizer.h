#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace laconic::app::data {

using Token = std::uint16_t;

// Tokens 0 to 255 are bytes, then four that stand for no text, then the merged ones.
inline constexpr Token kPadding = 256;    // fills short examples
inline constexpr Token kBegin = 257;      // opens every masked or classified example
inline constexpr Token kSeparator = 258;  // between sentences that share an example
inline constexpr Token kMask = 259;       // hides a token
inline constexpr Token kFirstMerge = 260;
inline constexpr std::int64_t kLargestVocabulary = 65536;

// Text to tokens and back, for any bytes: byte-pair encoding, with no merges at all a byte-level
// tokenizer. Merges stay within words (a run of letters, of digits or of signs, with the space
// before it) of at most 64 bytes. Immutable, so thread-safe.
class Tokenizer {
 public:
  using Merge = std::pair<Token, Token>;  // the i-th makes token kFirstMerge + i

  Tokenizer() : Tokenizer(std::vector<Merge>{}) {}
  // Throws Error(kCorrupt) for a merge of tokens that do not exist before it, or that no word
  // holds.
  explicit Tokenizer(std::vector<Merge> merges);
  // Merges the most frequent pair, of equals the smaller one, until there are `vocabulary` tokens
  // or no pair occurs twice. Throws Error(kInvalidArgument) for a vocabulary outside [kFirstMerge,
  // kLargestVocabulary].
  static Tokenizer train(std::string_view text, std::int64_t vocabulary);

  std::int64_t vocabulary() const noexcept { return kFirstMerge + std::ssize(merges_); }
  std::span<const Merge> merges() const noexcept { return merges_; }
  std::uint64_t fingerprint() const noexcept;

  std::vector<Token> encode(std::string_view text) const;
  // Tokens that stand for no text give none. REQUIRES: tokens below vocabulary().
  std::string decode(std::span<const Token> tokens) const;

 private:
  std::vector<Merge> merges_;
  std::unordered_map<std::uint32_t, Token> merged_;  // by pair
  std::vector<std::string> texts_;                   // of each token
};

// Tokenizer::train, kept in a file of `directory` named by the hash of text and vocabulary. A file
// that is damaged is written anew; where none can be written, training is merely repeated.
Tokenizer train_or_load(std::string_view text, std::int64_t vocabulary,
                        const std::filesystem::path& directory);

// $XDG_CACHE_HOME/laconic or $HOME/.cache/laconic; empty if there is neither.
std::filesystem::path user_cache_directory();

}  // namespace laconic::app::data
