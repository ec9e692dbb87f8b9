#include "laconic/collective/switching.h"

#include <algorithm>
#include <chrono>

#include "laconic/collective/coder.h"
#include "laconic/core/error.h"

namespace laconic::inline collective {

const char* name(Path path) noexcept {
  static constexpr const char* kNames[kPaths] = {"coded", "flat", "dense"};
  return kNames[static_cast<int>(path)];
}

namespace {

std::vector<State> residuals_of(Mean& mean) {
  auto all = mean.state();
  std::erase_if(all, [](const State& state) { return state.role != Role::kResidual; });
  return all;
}

}  // namespace

SwitchingMean::SwitchingMean(std::unique_ptr<Mean> coded, std::unique_ptr<Mean> flat,
                             std::unique_ptr<Mean> dense, const Nodes& nodes,
                             std::size_t scale_block)
    : dense_(std::move(dense)),
      coded_(coded.get()),
      ranks_(static_cast<float>(nodes.world->size())),
      scale_block_(scale_block) {
  if (flat) flat_.residuals = residuals_of(*flat);
  flat_.mean = std::move(flat);
  coded_path_ = {std::move(coded), static_cast<float>(nodes.per_node), residuals_of(*coded_)};
}

void SwitchingMean::exchange(const Source& source, const Sink& sink, const Round& round) {
  const Path other = wanted_ == Path::kFlat ? Path::kCoded : Path::kFlat;
  taken_ = wanted_ != Path::kDense && coded(other).owes ? Path::kDense : wanted_;
  const auto begin = std::chrono::steady_clock::now();
  if (taken_ == Path::kDense) {
    exact(source, sink, round);
  } else {
    coded(taken_).owes = true;
    coded(taken_).mean->exchange(source, sink, round);
  }
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A worker's residual is a share of the mean, the owner's is a part of the mean itself.
void SwitchingMean::exact(const Source& source, const Sink& sink, const Round& round) {
  addends_.clear();
  for (const Coded* each : {&coded_path_, &flat_})
    if (each->owes)
      for (const State& state : each->residuals)
        addends_.push_back({.values = state.values,
                            .begin = state.begin,
                            .gain = state.spread == Spread::kOwned ? ranks_ : each->worker_gain});
  const Corrected corrected{.of = &source,
                            .residuals = addends_,
                            .live = round.live.empty() ? nullptr : round.live.data(),
                            .bad = {scale_block_, &bad_}};
  dense_->exchange(corrected, sink, round);
  for (Coded* each : {&coded_path_, &flat_}) {
    if (!each->owes) continue;
    each->owes = false;
    for (const State& state : each->residuals)
      std::fill(state.values.begin(), state.values.end(), 0.0F);
  }
}

void SwitchingMean::restored() noexcept {
  coded_path_.owes = true;
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
  if (taken_ == Path::kDense) return 0;
  return (taken_ == Path::kFlat ? flat_.mean.get() : coded_)->residual_ratio();
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

}  // namespace laconic::inline collective
