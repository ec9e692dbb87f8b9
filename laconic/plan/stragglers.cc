#include "laconic/plan/stragglers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "laconic/core/random.h"

namespace laconic::plan {
namespace {

// Normal with mean 0 and variance 1, by position.
double normal(std::uint32_t rank, std::uint32_t turn) {
  const PhiloxCounter bits = philox({rank, turn, 0, 0}, {0x1ac0, 0x71c});
  const double u = (bits[0] + 0.5) * 0x1p-32, v = (bits[1] + 0.5) * 0x1p-32;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

}  // namespace

double seconds_per_step(const Race& race) {
  constexpr std::uint32_t kExchanges = 64;
  const double delay = std::min(race.delay, race.interval);
  std::vector<double> clock(static_cast<std::size_t>(race.ranks), 0.0);
  // So many steps of every rank; their spread grows with the root of their number.
  const auto take = [&](double steps, std::uint32_t turn) {
    for (std::size_t r = 0; r < clock.size(); ++r)
      clock[r] +=
          std::max(0.0, steps * race.step + std::sqrt(steps) * race.deviation *
                                                normal(static_cast<std::uint32_t>(r), turn));
  };
  double free = 0;  // when the exchange before this one is over
  for (std::uint32_t i = 0; i < kExchanges; ++i) {
    take(race.interval - delay, 2 * i);
    const double begin = std::max(free, *std::max_element(clock.begin(), clock.end()));
    free = begin + race.exchange;
    if (delay > 0) take(delay, 2 * i + 1);
    for (double& one : clock) one = std::max(one + race.work, free);
  }
  const double end = *std::max_element(clock.begin(), clock.end());
  return end / (kExchanges * race.interval);
}

}  // namespace laconic::plan
