#include "laconic/optim/cuts.h"

#include <algorithm>

namespace laconic::inline optim {
namespace {

// Where fragment `f` of `fragments` begins in a group of `elements`.
std::size_t begin_of(std::size_t elements, int f, int fragments) {
  const auto parts = static_cast<std::size_t>(fragments), part = static_cast<std::size_t>(f);
  const std::size_t whole = elements / parts * part + (elements % parts * part + parts - 1) / parts;
  return std::min(elements, (whole + 63) / 64 * 64);
}

}  // namespace

std::vector<Cut> cuts_of(const Model& model, int fragments, std::size_t elements) {
  std::vector<Cut> all;
  std::size_t begin = 0;
  for (std::size_t g = 0; g < model.groups.size(); ++g) {
    const std::size_t in_group = model.groups[g].elements;
    for (int f = 0; f < fragments; ++f) {
      const std::size_t end = begin_of(in_group, f + 1, fragments);
      for (std::size_t at = begin_of(in_group, f, fragments); at < end; at += elements)
        all.push_back({g, f, begin + at, std::min(elements, end - at)});
    }
    begin += in_group;
  }
  return all;
}

}  // namespace laconic::inline optim
