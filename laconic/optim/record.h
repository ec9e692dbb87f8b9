#pragma once

#include <memory>

#include "laconic/optim/policy.h"
#include "laconic/optim/rule.h"
#include "laconic/transport/metered.h"

namespace laconic::inline optim {

// What a run did: in the last step, and in all.
class Record {
 public:
  // `traffic` outlives this.
  explicit Record(const Traffic& traffic) : traffic_(traffic) {}

  void begin();
  // `taken`: not skipped. `exactly`: all that could be coded went exactly.
  void end(const Step& step, std::int64_t steps_taken, bool taken, bool exactly,
           std::span<const std::unique_ptr<Rule>> rules, const Shadow& shadow);

  StepStats stats;
  Totals totals;

 private:
  const Traffic& traffic_;
  Traffic::Count before_;
};

}  // namespace laconic::inline optim
