#include "laconic/optim/record.h"

#include <algorithm>

namespace laconic::inline optim {

Traffic::Count Record::sent() const {
  Traffic::Count all = traffic_.total();
  if (!courier_) return all;
  all.bytes_inside += courier_->sent().bytes_inside;
  all.bytes_between += courier_->sent().bytes_between;
  return all;
}

void Record::begin() {
  before_ = sent();
  waited_before_ = waited();
  stats.exchange.clear();
}

void Record::end(const Step& step, std::int64_t steps_taken, bool taken, bool exactly,
                 std::span<const std::unique_ptr<Rule>> rules, const Shadow& shadow) {
  static constexpr const char* kKinds[] = {"nothing", "dense", "coded", "silent"};
  const auto now = sent();
  stats.waited_seconds = waited() - waited_before_;
  totals.waited_seconds += stats.waited_seconds;
  stats.step = steps_taken;
  const bool coded = step.kind == Step::Kind::kCoded && !exactly;
  const bool dense = step.kind == Step::Kind::kDense || (step.kind == Step::Kind::kCoded && !coded);
  stats.kind = !taken ? "skipped" : dense ? "dense" : kKinds[static_cast<std::size_t>(step.kind)];
  stats.bytes_inside = now.bytes_inside - before_.bytes_inside;
  stats.bytes_between = now.bytes_between - before_.bytes_between;
  std::uint64_t bad = 0;
  stats.residual_ratio = 0;
  for (const auto& one : rules) {
    bad += one->bad_blocks();
    if (taken && step.kind == Step::Kind::kCoded)
      stats.residual_ratio = std::max(stats.residual_ratio, one->residual_ratio());
  }
  stats.bad_blocks = bad - totals.bad_blocks;
  stats.shadow.clear();
  if (shadow.on) stats.shadow = shadow.gauges();
  totals.bad_blocks = bad;
  totals.bytes_inside += stats.bytes_inside;
  totals.bytes_between += stats.bytes_between;
  totals.bytes = totals.bytes_inside + totals.bytes_between;
  if (!taken) return void(++totals.skipped);
  ++totals.steps;
  totals.dense += dense;
  totals.coded += coded;
  totals.silent += step.kind == Step::Kind::kSilent || step.kind == Step::Kind::kNothing;
}

}  // namespace laconic::inline optim
