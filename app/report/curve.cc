#include "app/report/curve.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace laconic::app::report {
namespace {

Point point_of(const StepRecord& record, double value) {
  return {static_cast<double>(record.step), static_cast<double>(record.bytes_total), record.seconds,
          value};
}

}  // namespace

Curve loss_curve(const std::vector<StepRecord>& records) {
  Curve curve;
  for (const StepRecord& record : records) curve.push_back(point_of(record, record.loss));
  return curve;
}

Curve validation_curve(const std::vector<StepRecord>& records,
                       std::optional<double> StepRecord::*field) {
  Curve curve;
  for (const StepRecord& record : records)
    if (record.*field) curve.push_back(point_of(record, *(record.*field)));
  return curve;
}

Curve smooth(const Curve& curve, double share) {
  const std::size_t n = curve.size();
  const auto half = static_cast<std::size_t>(static_cast<double>(n) * share / 2);
  std::vector<double> sums(n + 1), counts(n + 1);
  for (std::size_t i = 0; i < n; ++i) {
    const bool finite = std::isfinite(curve[i].value);
    sums[i + 1] = sums[i] + (finite ? curve[i].value : 0);
    counts[i + 1] = counts[i] + (finite ? 1 : 0);
  }
  Curve result = curve;
  for (std::size_t i = 0; i < n; ++i) {
    // As far to both sides where a curve starts steeply; to the left at its end, which is flat.
    const std::size_t back = std::min(half, i), ahead = std::min(back, n - 1 - i);
    const std::size_t begin = i - back, end = i + ahead + 1;
    if (std::isfinite(curve[i].value))
      result[i].value = (sums[end] - sums[begin]) / (counts[end] - counts[begin]);
  }
  return result;
}

Curve mean(const std::vector<Curve>& curves) {
  struct Sum {
    Point point;
    std::size_t count = 0;
  };
  std::map<double, Sum> sums;
  for (const Curve& curve : curves)
    for (const Point& point : curve) {
      Sum& sum = sums[point.step];
      sum.point.bytes += point.bytes;
      sum.point.seconds += point.seconds;
      sum.point.value += point.value;
      ++sum.count;
    }
  Curve result;
  const auto n = static_cast<double>(curves.size());
  for (const auto& [step, sum] : sums)
    if (sum.count == curves.size())
      result.push_back({step, sum.point.bytes / n, sum.point.seconds / n, sum.point.value / n});
  return result;
}

Curve thin(const Curve& curve, std::size_t limit) {
  if (curve.size() <= limit) return curve;
  Curve result{curve.front()};
  const std::size_t inner = curve.size() - 2, stretches = (limit - 2) / 2;
  // A value that is not finite is kept as the largest, so that a gap stays one.
  const auto less = [](const Point& a, const Point& b) {
    const bool a_finite = std::isfinite(a.value), b_finite = std::isfinite(b.value);
    return a_finite && b_finite ? a.value < b.value : a_finite && !b_finite;
  };
  for (std::size_t s = 0; s < stretches; ++s) {
    const auto begin = curve.begin() + 1 + static_cast<std::ptrdiff_t>(s * inner / stretches);
    const auto end = curve.begin() + 1 + static_cast<std::ptrdiff_t>((s + 1) * inner / stretches);
    auto [low, high] = std::minmax_element(begin, end, less);
    if (low > high) std::swap(low, high);
    result.push_back(*low);
    if (high != low) result.push_back(*high);
  }
  result.push_back(curve.back());
  return result;
}

}  // namespace laconic::app::report
