#pragma once

#include <memory>
#include <string>
#include <vector>

#include "laconic/collective/switching.h"
#include "laconic/optim/choice.h"

namespace laconic::inline optim {

// The means that may take another path than the coded one, and which they take in each step.
class Paths {
 public:
  // The caller keeps it alive. Null: it cannot take another.
  void add(SwitchingMean* mean) {
    if (mean) means_.push_back(mean);
  }
  // All means are added: from now on times decide.
  void measure(const OptimizerConfig& config, const Nodes& nodes, const Nodes* flat,
               Device& device) {
    choice_ = std::make_unique<Choice>(config, nodes, flat, device, means_);
  }

  bool none() const noexcept { return means_.empty(); }
  // The next `steps` coded steps go exactly.
  void go_exactly(int steps) noexcept { exact_left_ = steps; }
  // Before a coded step. Collective where times decide. Returns the buckets' paths.
  std::string choose();
  // All that could be coded went exactly.
  bool went_exactly() const;
  void restored();

 private:
  std::vector<SwitchingMean*> means_;
  std::unique_ptr<Choice> choice_;  // null: nothing to choose
  int exact_left_ = 0;              // coded steps that go exactly
};

}  // namespace laconic::inline optim
