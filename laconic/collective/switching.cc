#include "laconic/collective/switching.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "laconic/collective/coder.h"
#include "laconic/core/error.h"

namespace laconic {

const char* name(Way way) noexcept {
  static constexpr const char* kNames[kWays] = {"coded", "flat", "dense"};
  return kNames[static_cast<int>(way)];
}

namespace {

std::vector<State> residuals_of(Mean& mean) {
  auto all = mean.state();
  std::erase_if(all, [](const State& state) { return state.role != Role::kResidual; });
  return all;
}

}  // namespace

SwitchingMean::SwitchingMean(std::unique_ptr<Mean> coded, std::unique_ptr<Mean> flat,
                             std::unique_ptr<Mean> dense, const Nodes& nodes)
    : dense_(std::move(dense)),
      coded_(coded.get()),
      ranks_(static_cast<float>(nodes.world->size())) {
  if (flat) flat_.residuals = residuals_of(*flat);
  flat_.mean = std::move(flat);
  coded_way_ = {std::move(coded), static_cast<float>(nodes.per_node), residuals_of(*coded_)};
}

void SwitchingMean::exchange(Fill fill, Take take, const Round& round) {
  const Way other = wanted_ == Way::kFlat ? Way::kCoded : Way::kFlat;
  taken_ = wanted_ != Way::kDense && coded(other).owes ? Way::kDense : wanted_;
  const auto begin = std::chrono::steady_clock::now();
  exchange_by(taken_, fill, take, round);
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void SwitchingMean::exchange_by(Way way, Fill fill, Take take, const Round& round) {
  if (way == Way::kDense) return exact(fill, take, round);
  coded(way).owes = true;
  coded(way).mean->exchange(fill, take, round);
}

void SwitchingMean::exact(Fill fill, Take take, const Round& round) {
  dense_->exchange(
      [&](Tile& tile) {
        float* const own = tile.values;
        if (!fill(tile)) bad_.fetch_add(1, std::memory_order_relaxed);
        if (tile.values != own) std::memcpy(own, tile.values, 4 * tile.count);
        tile.values = own;
        for (const Coded* each : {&coded_way_, &flat_})
          if (each->owes) add_residuals(*each, tile.begin, {own, tile.count});
        if (!round.live.empty())
          for (std::size_t k = 0; k < tile.count; ++k)
            if (round.live[tile.begin + k] == 0) own[k] = 0;
        return true;
      },
      take, round);
  for (Coded* each : {&coded_way_, &flat_}) {
    if (!each->owes) continue;
    each->owes = false;
    for (const State& state : each->residuals)
      std::fill(state.values.begin(), state.values.end(), 0.0F);
  }
}

// A worker's residual is a share of the mean, the owner's is a part of the mean itself.
void SwitchingMean::add_residuals(const Coded& coded, std::size_t begin,
                                  std::span<float> values) const {
  for (const State& state : coded.residuals) {
    const float gain = state.spread == Spread::kOwned ? ranks_ : coded.worker_gain;
    const std::size_t from = std::max(begin, state.begin);
    const std::size_t to = std::min(begin + values.size(), state.begin + state.values.size());
    for (std::size_t at = from; at < to; ++at)
      values[at - begin] += gain * state.values[at - state.begin];
  }
}

void SwitchingMean::restored() noexcept {
  coded_way_.owes = true;
  flat_.owes = flat_.mean != nullptr;
}

std::vector<State> SwitchingMean::state() {
  std::vector<State> all = coded_->state();
  if (!flat_.mean) return all;
  for (State& one : flat_.mean->state()) {
    one.name = kFlatPrefix + one.name;
    all.push_back(std::move(one));
  }
  return all;
}

double SwitchingMean::residual_ratio() const noexcept {
  if (taken_ == Way::kDense) return 0;
  return (taken_ == Way::kFlat ? flat_.mean.get() : coded_)->residual_ratio();
}

std::string SwitchingMean::describe() const {
  return fmt::format(
      "{} or exact{}, whichever is measured to be faster (so runs do not repeat bit "
      "for bit)",
      coded_->describe(), flat_.mean ? ", or flat" : "");
}

std::uint64_t SwitchingMean::bad_blocks() const noexcept {
  return coded_->bad_blocks() + (flat_.mean ? flat_.mean->bad_blocks() : 0) +
         bad_.load(std::memory_order_relaxed);
}

}  // namespace laconic
