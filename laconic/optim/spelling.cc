#include "laconic/optim/spelling.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace laconic::inline optim {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string spelled(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c == '-') c = '_';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string_view nearest(std::string_view text, std::span<const std::string_view> names) {
  const std::string wanted = spelled(text);
  return *std::min_element(names.begin(), names.end(), [&](auto a, auto b) {
    return edit_distance(wanted, spelled(a)) < edit_distance(wanted, spelled(b));
  });
}

}  // namespace laconic::inline optim
