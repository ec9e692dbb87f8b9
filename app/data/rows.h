#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "app/data/dataset.h"
#include "app/data/tokenizer.h"

namespace laconic::app::data {

// Rows of tokens of any length, end to end in memory.
class TokenRows {
 public:
  void add(std::span<const Token> row) {
    tokens_.insert(tokens_.end(), row.begin(), row.end());
    ends_.push_back(tokens_.size());
  }
  std::int64_t size() const noexcept { return std::ssize(ends_); }
  std::span<const Token> operator[](std::int64_t i) const noexcept {
    const auto at = static_cast<std::size_t>(i);
    const std::size_t begin = at == 0 ? 0 : ends_[at - 1];
    return std::span(tokens_).subspan(begin, ends_[at] - begin);
  }
  std::span<const Token> tokens() const noexcept { return tokens_; }
  std::span<const std::size_t> ends() const noexcept { return ends_; }

 private:
  std::vector<Token> tokens_;
  std::vector<std::size_t> ends_;
};

// Makes `out` a batch of `rows` rows of `length` tokens, all kPadding, without targets.
inline void start_rows(Batch& out, std::size_t rows, std::size_t length) {
  out.size = static_cast<std::int64_t>(rows);
  out.values.clear();
  out.tokens.assign(rows * length, kPadding);
  out.targets.clear();
}

}  // namespace laconic::app::data
