#include "laconic/optim/learning_rate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "laconic/core/error.h"
#include "laconic/optim/scalars.h"
#include "laconic/optim/spelling.h"

namespace laconic::inline optim {
namespace {

using Decay = LearningRate::Decay;

// In the order of Decay.
constexpr std::array<std::string_view, 4> kDecays = {"constant", "linear", "cosine", "staircase"};

double ratio(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

void check_ranges(const LearningRate& s) {
  if (!std::isfinite(s.peak) || s.peak < 0)
    fail(Code::kInvalidArgument, "the peak learning rate is {}: give a finite number >= 0", s.peak);
  if (!(s.least >= 0 && s.least <= s.peak))
    fail(Code::kInvalidArgument,
         "the least learning rate is {}: give a number from 0 to the peak of {}", s.least, s.peak);
  if (s.warmup < 0)
    fail(Code::kInvalidArgument, "warm-up of {} steps: give a number >= 0", s.warmup);
  if (s.total < 0) fail(Code::kInvalidArgument, "{} steps in total: give a number >= 0", s.total);
}

}  // namespace

double LearningRate::operator()(std::int64_t step) const {
  if (step <= warmup) return peak * ratio(step, warmup);
  const double progress = std::clamp(ratio(step - warmup, total - warmup), 0.0, 1.0);
  switch (decay) {
    case Decay::kConstant: break;
    case Decay::kLinear: return least + (peak - least) * (1 - progress);
    case Decay::kCosine:
      return least + (peak - least) * 0.5 * (1 + cosine(std::numbers::pi * progress));
    case Decay::kStaircase: {
      const std::int64_t drops = (step - warmup - 1) / every;
      return std::max(least, peak * power(factor, drops));
    }
  }
  return peak;
}

LearningRate validated(LearningRate schedule) {
  const LearningRate& s = schedule;
  check_ranges(s);
  if (static_cast<std::size_t>(s.decay) >= kDecays.size())
    fail(Code::kInvalidArgument, "no decay has the number {}: give one of {}",
         static_cast<int>(s.decay), fmt::join(kDecays, ", "));
  if ((s.decay == Decay::kLinear || s.decay == Decay::kCosine) && s.total <= s.warmup)
    fail(Code::kInvalidArgument,
         "{} steps in total with a warm-up of {}: {} decay needs a total above the warm-up",
         s.total, s.warmup, kDecays[static_cast<std::size_t>(s.decay)]);
  if (s.decay == Decay::kStaircase && !(s.factor > 0 && s.factor <= 1))
    fail(Code::kInvalidArgument, "a staircase with the factor {}: give a number in (0, 1]",
         s.factor);
  if (s.decay == Decay::kStaircase && s.every < 1)
    fail(Code::kInvalidArgument, "a staircase with stairs of {} steps: give a number >= 1",
         s.every);
  return schedule;
}

Decay parse_decay(const std::string& text) {
  for (std::size_t i = 0; i < kDecays.size(); ++i)
    if (spelled(text) == kDecays[i]) return static_cast<Decay>(i);
  fail(Code::kInvalidArgument, "no decay \"{}\", did you mean \"{}\"? There are {}", text,
       nearest(text, kDecays), fmt::join(kDecays, ", "));
}

}  // namespace laconic::inline optim
