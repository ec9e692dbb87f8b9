#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "app/report/metrics.h"

// Lines to draw: a value against steps, bytes or seconds. A value that is not finite breaks a line.
namespace laconic::app::report {

struct Point {
  double step = 0, bytes = 0, seconds = 0, value = 0;
};
using Curve = std::vector<Point>;

Curve loss_curve(const std::vector<StepRecord>& records);
// Of the steps that were validated.
Curve validation_curve(const std::vector<StepRecord>& records,
                       std::optional<double> StepRecord::*field);

// Each value becomes the mean of those around it, `share` of the whole curve wide.
Curve smooth(const Curve& curve, double share);

// The mean of several runs, step by step, over the steps that all of them have: of the values, and
// of the bytes and seconds that it took to get there.
Curve mean(const std::vector<Curve>& curves);

// At most `limit` points (4 or more) that look the same: the least and the largest of each stretch,
// the first and the last.
Curve thin(const Curve& curve, std::size_t limit);

}  // namespace laconic::app::report
