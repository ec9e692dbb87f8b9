#include "app/training/tuned.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "laconic/core/error.h"
#include "laconic/optim/spelling.h"

namespace laconic::app::training {
namespace {

struct Row {
  std::string_view model;
  Preset preset;
  std::array<double, 5> lr;  // in the order of Algorithm
};

// resnet20 and gpt2-mini: the best of the values that `bench/tune.py` tries. The others:
// those of the nearest model, or of the papers, not tuned here.
constexpr Row kRows[] = {
    //                                 sgdm  adamw 1-bit 0/1   birder
    {"resnet8", {400, 32}, {0.03, 1e-2, 1e-2, 1e-2, 1e-2}},
    {"resnet20", {400, 32}, {0.03, 1e-2, 1e-2, 1e-2, 1e-2}},
    {"resnet18", {1000, 32}, {0.03, 1e-3, 1e-3, 1e-3, 2e-3}},
    {"resnet50", {1000, 32}, {0.03, 1e-3, 1e-3, 1e-3, 2e-3}},
    {"gpt2-mini", {400, 8}, {0.1, 1e-3, 1e-3, 1e-3, 1e-3}},
    {"gpt2", {1000, 2}, {0.05, 6e-4, 6e-4, 6e-4, 6e-4}},
    {"bert-mini", {400, 16}, {0.1, 1e-3, 1e-3, 1e-3, 1e-3}},
    {"bert-base", {1000, 4}, {0.05, 1e-4, 1e-4, 1e-4, 1e-4}},
    {"bert-large", {1000, 2}, {0.05, 1e-4, 1e-4, 1e-4, 1e-4}},
};

const Row& row_of(const std::string& model) {
  const auto found = std::ranges::find(kRows, model, &Row::model);
  if (found != std::end(kRows)) return *found;
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(row.model);
  fail(Code::kInvalidArgument, "there is no model {}: did you mean {}? There are {}", model,
       nearest(model, names), fmt::join(names, ", "));
}

}  // namespace

Preset preset_of(const std::string& model) { return row_of(model).preset; }

double tuned_lr(const std::string& model, Algorithm algorithm) {
  return row_of(model).lr[static_cast<std::size_t>(algorithm)];
}

}  // namespace laconic::app::training
