#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace laconic::app::report {

// The columns of the terminal behind `out`, or `otherwise` where there is none.
std::size_t line_width(std::FILE* out, std::size_t otherwise);

// A table of texts for terminals, numbers to the right. What does not fit is left out column by
// column, and named below.
class TextTable {
 public:
  // `importance`: the least important columns go first; the first column never goes.
  void column(std::string title, int importance);
  // REQUIRES: one text for each column.
  void row(std::vector<std::string> texts);
  std::string text(std::size_t width) const;

 private:
  struct Column {
    std::string title;
    int importance;
    std::size_t width;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace laconic::app::report
