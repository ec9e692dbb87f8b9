#include "app/report/text_table.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace laconic::app::report {
namespace {

constexpr std::size_t kGap = 2;

// In characters, not bytes.
std::size_t length_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::size_t line_width(std::FILE* out, std::size_t otherwise) {
  winsize size{};
  const bool known = ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : otherwise;
}

void TextTable::column(std::string title, int importance) {
  const std::size_t width = length_of(title);
  columns_.push_back({std::move(title), importance, width});
}

void TextTable::row(std::vector<std::string> texts) {
  for (std::size_t i = 0; i < texts.size(); ++i)
    columns_[i].width = std::max(columns_[i].width, length_of(texts[i]));
  rows_.push_back(std::move(texts));
}

std::string TextTable::text(std::size_t width) const {
  std::vector<std::size_t> shown, by_importance;
  std::size_t needed = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (i > 0) by_importance.push_back(i);
    needed += columns_[i].width + (i > 0 ? kGap : 0);
  }
  std::ranges::stable_sort(by_importance, {},
                           [&](std::size_t i) { return columns_[i].importance; });
  std::vector<bool> out(columns_.size(), false);
  for (const std::size_t i : by_importance) {
    if (needed <= width) break;
    out[i] = true;
    needed -= columns_[i].width + kGap;
  }
  std::string text, left_out;
  const auto line = [&](const auto& text_of) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (out[i]) continue;
      const std::string& cell = text_of(i);
      const std::string pad(columns_[i].width - length_of(cell), ' ');
      text += i == 0 ? cell + pad : std::string(kGap, ' ') + pad + cell;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  };
  line([&](std::size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) line([&](std::size_t i) -> const std::string& { return row[i]; });
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (out[i]) left_out += (left_out.empty() ? "" : ", ") + columns_[i].title;
  if (!left_out.empty()) text += fmt::format("(too narrow for: {})\n", left_out);
  return text;
}

}  // namespace laconic::app::report
