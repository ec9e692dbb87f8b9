#include "laconic/optim/schedule.h"

#include <algorithm>
#include <cmath>

namespace laconic::inline optim {

void Schedule::done(Counters& c, const Step& step, FunctionRef<double()>) const {
  c.t() = static_cast<double>(step.t);
  c.variance_updates() = static_cast<double>(step.variance_updates);
  if (step.lr > c.lr_before()) c.last_rise() = c.t();
  c.lr_before() = step.lr;
  c.lr_peak() = std::max(c.lr_peak(), step.lr);
  if (step.kind == Step::Kind::kDense || step.kind == Step::Kind::kCoded) c.last_sync() = c.t();
}

Step Schedule::next(Counters c, double lr) {
  return {.t = static_cast<std::int64_t>(c.t()) + 1,
          .lr = lr,
          .variance_updates = static_cast<std::int64_t>(c.variance_updates())};
}

namespace {

class EveryStep final : public Schedule {
 public:
  explicit EveryStep(Step::Kind kind) : kind_(kind) {}
  Step plan(Counters c, double lr) const override {
    Step step = next(c, lr);
    step.kind = kind_;
    step.variance_updates = step.t;
    return step;
  }

 private:
  Step::Kind kind_;
};

}  // namespace

std::unique_ptr<Schedule> every_step(Step::Kind kind) { return std::make_unique<EveryStep>(kind); }

}  // namespace laconic::inline optim
