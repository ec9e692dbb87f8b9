#pragma once

#include "laconic/optim/optimizer.h"

// What a model must be before it is trained, and what must be the same on all ranks. Those that
// take a transport are collective; a difference is an error on every rank, and names what differs.
namespace laconic::inline optim {

// The model with what was left out filled in. Error(kInvalidArgument) when its parts do not fit.
Model completed(Model model, const OptimizerConfig& config);

// REQUIRES: `model` is completed.
void agree_on_setup(Transport& transport, const OptimizerConfig& config, const Model& model);
void agree_on_first_weights(Transport& transport, std::span<const float> weights);

// Compares the weights of replicas, range by range.
class ReplicaCheck {
 public:
  // `model` is completed, and outlives this.
  explicit ReplicaCheck(const Model& model) : model_(model), mine_(model.ranges.size()) {}

  // Of `weights`, as many as the model has. Error(kMismatch) with the range and the ranks.
  void compare(Transport& transport, std::span<const float> weights, std::int64_t step);

 private:
  const Model& model_;
  std::vector<std::uint64_t> mine_, all_;
};

}  // namespace laconic::inline optim
