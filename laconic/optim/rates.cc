#include "laconic/optim/rates.h"

#include <algorithm>
#include <cmath>

#include "laconic/core/error.h"

namespace laconic::inline optim {
namespace {

void check_rate(const char* what, double value) {
  if (!(value >= 0) || !std::isfinite(value))
    fail(Code::kInvalidArgument, "a {} of {}: it must be finite and at least 0", what, value);
}

}  // namespace

void Rates::set(double lr) {
  check_rate("learning rate", lr);
  for (std::size_t i = 0; i < now_.size(); ++i)
    now_[i] = {lr * model_.groups[i].lr_factor, model_.groups[i].weight_decay};
}

double Rates::set(std::span<const GroupStep> groups) {
  if (groups.size() != now_.size())
    fail(Code::kInvalidArgument, "{} learning rates for {} groups", groups.size(), now_.size());
  double largest = 0;
  for (const GroupStep& group : groups) {
    check_rate("learning rate", group.lr);
    check_rate("weight decay", group.weight_decay);
    largest = std::max(largest, group.lr);
  }
  std::copy(groups.begin(), groups.end(), now_.begin());
  return largest;
}

}  // namespace laconic::inline optim
