#pragma once

#include "laconic/optim/optimizer.h"

namespace laconic::inline optim {

// Learning rate and weight decay of every group in the step under way.
class Rates {
 public:
  // `model` is completed, and outlives this.
  explicit Rates(const Model& model) : model_(model), now_(model.groups.size()) {}

  // One rate, times each group's factor; weight decay as the model has it.
  void set(double lr);
  // One each. Returns the largest learning rate.
  double set(std::span<const GroupStep> groups);
  // Stays where it is.
  const GroupStep* of(std::size_t group) const noexcept { return &now_[group]; }

 private:
  const Model& model_;
  std::vector<GroupStep> now_;
};

}  // namespace laconic::inline optim
