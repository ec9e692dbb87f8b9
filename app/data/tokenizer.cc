#include "app/data/tokenizer.h"

#include <algorithm>
#include <limits>

#include "app/data/words.h"
#include "laconic/core/error.h"
#include "laconic/core/hash.h"

namespace laconic::app::data {

Tokenizer::Tokenizer(std::vector<Merge> merges) : merges_(std::move(merges)), texts_(kFirstMerge) {
  for (std::size_t byte = 0; byte < 256; ++byte) texts_[byte] = static_cast<char>(byte);
  for (const auto& [left, right] : merges_) {
    const std::size_t made = texts_.size();
    for (const Token part : {left, right})
      if (part >= made || texts_[part].empty() || made >= kLargestVocabulary)
        fail(Code::kCorrupt, "token {} is merged of {} and {}, which is no earlier text", made,
             left, right);
    texts_.push_back(texts_[left] + texts_[right]);
    // Texts could double from one to the next.
    if (texts_.back().size() > kLongestWord)
      fail(Code::kCorrupt, "token {} stands for {} bytes, words have at most {}", made,
           texts_.back().size(), kLongestWord);
    merged_.emplace(pair_key(left, right), static_cast<Token>(made));
  }
}

std::uint64_t Tokenizer::fingerprint() const noexcept {
  std::uint64_t hash = hash64({}, static_cast<std::uint64_t>(vocabulary()));
  for (const auto& [left, right] : merges_) {
    const std::uint32_t key = pair_key(left, right);
    hash = hash64(std::as_bytes(std::span(&key, 1)), hash);
  }
  return hash;
}

std::vector<Token> Tokenizer::encode(std::string_view text) const {
  std::vector<Token> out, word;
  out.reserve(text.size());
  for_each_word(text, [&](std::string_view letters) {
    word.assign(letters.size(), 0);
    std::transform(letters.begin(), letters.end(), word.begin(),
                   [](char c) { return static_cast<Token>(static_cast<unsigned char>(c)); });
    while (word.size() > 1) {
      Token first = std::numeric_limits<Token>::max();  // the earliest merge that applies
      bool any = false;
      for (std::size_t i = 0; i + 1 < word.size() && !merged_.empty(); ++i)
        if (const auto found = merged_.find(pair_key(word[i], word[i + 1]));
            found != merged_.end()) {
          first = std::min(first, found->second);
          any = true;
        }
      if (!any) break;
      const auto& [left, right] = merges_[static_cast<std::size_t>(first - kFirstMerge)];
      merge_pair(word, left, right, first);
    }
    out.insert(out.end(), word.begin(), word.end());
  });
  return out;
}

std::string Tokenizer::decode(std::span<const Token> tokens) const {
  std::string out;
  for (const Token token : tokens) out += texts_[token];
  return out;
}

}  // namespace laconic::app::data
