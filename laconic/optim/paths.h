#pragma once

#include <memory>
#include <string>
#include <vector>

#include "laconic/collective/switching.h"
#include "laconic/optim/choice.h"
#include "laconic/optim/policy.h"

namespace laconic::inline optim {

// The paths of a method's coded means: as configured, exactly and, with exchange = auto, flat (where
// the layout is a hierarchy) and with the other codecs of Method::choices_of.
std::vector<Path> paths_of(const OptimizerConfig& config, bool hierarchy);
// With `codec`, or exactly.
std::vector<Path> coded_or_exact(const OptimizerConfig& config, const std::string& codec);

// The means that may take another path than the configured one, and which they take in each step.
class Paths {
 public:
  // Of a bucket: the means of coded and of dense steps. The caller keeps them alive. Null: it cannot
  // take another.
  void add(SwitchingMean* coded, SwitchingMean* dense) {
    if (coded) means_.push_back(coded);
    if (dense) dense_.push_back(dense);
  }
  // All means are added: from now on times decide.
  void measure(const OptimizerConfig& config, std::span<const Path> paths, const Nodes& nodes,
               const Nodes* flat, Device& device) {
    choice_ = std::make_unique<Choice>(config, paths, nodes, flat, device, means_);
  }

  // The next `steps` steps that code go exactly.
  void go_exactly(int steps) noexcept { exact_left_ = steps; }
  // Before a step of this kind, whose means are lossy. Collective where times decide, which they do
  // for coded steps only. Returns the buckets' paths; empty where there is but one.
  std::string choose(Step::Kind kind);
  // All that could be coded went exactly.
  bool went_exactly() const;
  void restored();

 private:
  std::vector<SwitchingMean*> means_, dense_;
  std::unique_ptr<Choice> choice_;  // null: nothing to choose
  int exact_left_ = 0;              // steps that code and go exactly
};

}  // namespace laconic::inline optim
