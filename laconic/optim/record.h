#pragma once

#include <memory>

#include "laconic/optim/courier.h"
#include "laconic/optim/policy.h"
#include "laconic/optim/rule.h"
#include "laconic/transport/metered.h"

namespace laconic::inline optim {

// What a run did: in the last step, and in all.
class Record {
 public:
  // `traffic` outlives this.
  explicit Record(const Traffic& traffic) : traffic_(traffic) {}
  // Counts what it sends too, and how long steps wait for it. It outlives this.
  void follow(const Courier& courier) noexcept { courier_ = &courier; }

  void begin();
  // `taken`: not skipped. `exactly`: all that could be coded went exactly.
  void end(const Step& step, std::int64_t steps_taken, bool taken, bool exactly,
           std::span<const std::unique_ptr<Rule>> rules, const Shadow& shadow);

  StepStats stats;
  Totals totals;

 private:
  // What this rank has sent, as far as it counts.
  Traffic::Count sent() const;
  double waited() const { return courier_ ? courier_->waited_seconds() : 0; }

  const Traffic& traffic_;
  const Courier* courier_ = nullptr;
  Traffic::Count before_;
  double waited_before_ = 0;
};

}  // namespace laconic::inline optim
