#include "app/training/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace laconic::app::training {
namespace {

constexpr double kKeep = 0.98;      // of what is usual, from step to step
constexpr double kLeast = 0.02;     // of the mean: a deviation is never taken to be smaller
constexpr double kMostTaken = 3.0;  // deviations that one value may move what is usual by

}  // namespace

double Guard::Usual::surprise(double value) {
  const double deviation = std::max(std::sqrt(variance), kLeast * std::abs(mean));
  const double above = count >= kAtLeast && deviation > 0 ? (value - mean) / deviation : 0;
  if (count >= kAtLeast)
    value = std::clamp(value, mean - kMostTaken * deviation, mean + kMostTaken * deviation);
  const double weight = std::max(1 - kKeep, 1.0 / (count + 1));
  const double from_mean = value - mean;
  mean += weight * from_mean;
  variance = (1 - weight) * (variance + weight * from_mean * from_mean);
  ++count;
  return above;
}

std::optional<std::string> Guard::look(double loss, std::optional<double> residual) {
  std::optional<std::string> why;
  const auto judge = [&](Usual& usual, double value, const char* what) {
    if (!std::isfinite(value)) return;
    const double before = usual.mean, above = usual.surprise(value);
    if (above > kDeviations && !why)
      why = fmt::format("the {} is {:.4g}, {:.1f} deviations above its mean of {:.4g}", what, value,
                        above, before);
  };
  judge(loss_, loss, "loss");
  if (residual) judge(residual_, *residual, "residual ratio");
  if (left_ > 0) return {};
  if (why) left_ = kExactSteps;
  return why;
}

nlohmann::json Guard::state() const {
  return {{"loss", loss_}, {"residual", residual_}, {"left", left_}};
}

void Guard::restore(const nlohmann::json& state) {
  state.at("loss").get_to(loss_);
  state.at("residual").get_to(residual_);
  state.at("left").get_to(left_);
}

}  // namespace laconic::app::training
