#include "laconic/collective/switching.h"

#include <algorithm>
#include <chrono>

#include "laconic/core/error.h"

namespace laconic::inline collective {
namespace {

std::vector<State> residuals_of(Mean& mean) {
  auto all = mean.state();
  std::erase_if(all, [](const State& state) { return state.role != Role::kResidual; });
  return all;
}

}  // namespace

SwitchingMean::SwitchingMean(std::span<const Path> paths, std::vector<std::unique_ptr<Mean>> means,
                             const Nodes& nodes, std::size_t scale_block)
    : ranks_(static_cast<float>(nodes.world->size())), scale_block_(scale_block) {
  for (std::size_t i = 0; i < paths.size(); ++i) {
    auto residuals = residuals_of(*means[i]);
    branches_.push_back({.path = paths[i],
                         .mean = std::move(means[i]),
                         .exact = paths[i].exact(),
                         .worker_gain = paths[i].flat ? 1 : static_cast<float>(nodes.per_node),
                         .residuals = std::move(residuals)});
  }
  const auto first = [this](bool exact) {
    const auto found = std::ranges::find(branches_, exact, &Branch::exact);
    return static_cast<std::size_t>(found - branches_.begin());
  };
  exact_ = first(true);
  lossy_ = first(false);
}

bool SwitchingMean::others_owe(std::size_t path) const noexcept {
  for (std::size_t i = 0; i < branches_.size(); ++i)
    if (i != path && branches_[i].owes) return true;
  return false;
}

void SwitchingMean::exchange(const Source& source, const Sink& sink, const Round& round) {
  taken_ = !branches_[wanted_].exact && others_owe(wanted_) ? exact_ : wanted_;
  const auto begin = std::chrono::steady_clock::now();
  if (Branch& taken = branches_[taken_]; taken.exact) {
    exact(source, sink, round);
  } else {
    taken.owes = true;
    taken.mean->exchange(source, sink, round);
  }
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A worker's residual is a share of the mean, the owner's is a part of the mean itself.
void SwitchingMean::exact(const Source& source, const Sink& sink, const Round& round) {
  addends_.clear();
  for (const Branch& each : branches_)
    if (each.owes)
      for (const State& state : each.residuals)
        addends_.push_back({.values = state.values,
                            .begin = state.begin,
                            .gain = state.spread == Spread::kOwned ? ranks_ : each.worker_gain});
  const Corrected corrected{.of = &source,
                            .residuals = addends_,
                            .live = round.live.empty() ? nullptr : round.live.data(),
                            .bad = {scale_block_, &bad_}};
  branches_[taken_].mean->exchange(corrected, sink, round);
  for (Branch& each : branches_) {
    if (!each.owes) continue;
    each.owes = false;
    for (const State& state : each.residuals)
      std::fill(state.values.begin(), state.values.end(), 0.0F);
  }
}

void SwitchingMean::restored() noexcept {
  for (Branch& each : branches_) each.owes = !each.exact;
}

std::vector<State> SwitchingMean::state() {
  std::vector<State> all;
  for (const Branch& each : branches_)
    for (State& one : each.mean->state()) {
      one.name = each.path.prefix + one.name;
      all.push_back(std::move(one));
    }
  return all;
}

std::string SwitchingMean::describe() const {
  std::string all;
  for (const Branch& each : branches_) all += (all.empty() ? "" : ", ") + each.path.name;
  return fmt::format(
      "{}: {} now, of {} the path that is measured to be fastest (so runs do not repeat bit for "
      "bit)",
      branches_[taken_].mean->describe(), branches_[taken_].path.name, all);
}

std::uint64_t SwitchingMean::bad_blocks() const noexcept {
  std::uint64_t all = bad_.load(std::memory_order_relaxed);
  for (const Branch& each : branches_)
    if (!each.exact) all += each.mean->bad_blocks();
  return all;
}

}  // namespace laconic::inline collective
