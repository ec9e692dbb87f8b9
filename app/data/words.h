#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "app/data/tokenizer.h"

// What training and use of a tokenizer share.
namespace laconic::app::data {

inline constexpr std::size_t kLongestWord = 64;  // bytes; bounds the work on any input

constexpr std::uint32_t pair_key(Token left, Token right) noexcept {
  return std::uint32_t{left} << 16 | right;
}

enum class Letter : std::uint8_t { kSpace, kLetter, kDigit, kSign };

constexpr Letter letter_of(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  if (byte == ' ' || (byte >= '\t' && byte <= '\r')) return Letter::kSpace;
  if (byte >= '0' && byte <= '9') return Letter::kDigit;
  // All of UTF-8 beyond ASCII counts as letters.
  if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') return Letter::kLetter;
  return byte >= 0x80 ? Letter::kLetter : Letter::kSign;
}

// Cuts all of the text into words: take(std::string_view).
template <typename Take>
void for_each_word(std::string_view text, Take take) {
  while (!text.empty()) {
    std::size_t end = text[0] == ' ' && text.size() > 1 ? 1 : 0;
    const Letter kind = letter_of(text[end]);
    if (kind == Letter::kSpace) end = 0;
    const std::size_t longest = std::min(text.size(), kLongestWord);
    while (end < longest && letter_of(text[end]) == kind) ++end;
    // The last of several spaces belongs to the word that follows.
    if (kind == Letter::kSpace && end > 1 && end < text.size() && text[end - 1] == ' ' &&
        letter_of(text[end]) != Letter::kSpace)
      --end;
    take(text.substr(0, end));
    text.remove_prefix(end);
  }
}

// Replaces each `left`, `right` side by side with `made`, from the left.
inline void merge_pair(std::vector<Token>& word, Token left, Token right, Token made) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < word.size(); ++from, ++to) {
    const bool both = from + 1 < word.size() && word[from] == left && word[from + 1] == right;
    word[to] = both ? made : word[from];
    from += both ? 1 : 0;
  }
  word.resize(to);
}

}  // namespace laconic::app::data
