#include "app/training/tuned.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "laconic/core/error.h"
#include "laconic/optim/method.h"
#include "laconic/optim/spelling.h"

namespace laconic::app::training {
namespace {

struct Row {
  std::string_view model;
  Preset preset;
  double lr;  // of methods that have none of their own for the model
};

// resnet20 and gpt2-mini: the best of the values that `bench/tune.py` tries, where all optimizers
// but sgdm came out at AdamW's. The others: those of the nearest model, or of the papers.
constexpr Row kRows[] = {
    {"resnet8", {400, 32}, 1e-2},   {"resnet20", {400, 32}, 1e-2},  {"resnet18", {1000, 32}, 1e-3},
    {"resnet50", {1000, 32}, 1e-3}, {"gpt2-mini", {400, 8}, 1e-3},  {"gpt2", {1000, 2}, 6e-4},
    {"bert-mini", {400, 16}, 1e-3}, {"bert-base", {1000, 4}, 1e-4}, {"bert-large", {1000, 2}, 1e-4},
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

double tuned_lr(const std::string& model, std::string_view optimizer) {
  const Row& row = row_of(model);
  const auto& own = method_named(optimizer).rates;
  const auto found = own.find(model);
  return found == own.end() ? row.lr : found->second;
}

}  // namespace laconic::app::training
