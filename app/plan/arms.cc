#include "app/plan/arms.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "app/training/arm.h"
#include "app/units.h"
#include "laconic/core/error.h"

namespace laconic::app::plan {
namespace {

using laconic::plan::Topology;

const std::string kBaseline = laconic::plan::MethodStep{}.algorithm;

const char* name_of(Topology topology) {
  return topology == Topology::kAllReduce ? "all-reduce"
         : topology == Topology::kFlat    ? "flat"
                                          : "nodes";
}

Arm all_reduce(bool bf16, const Rounds& rounds) {
  return {.optimizer = kBaseline,
          .wire = bf16 ? "bf16" : "fp32",
          .exchange = name_of(Topology::kAllReduce),
          .method = {.topology = Topology::kAllReduce, .bf16 = bf16},
          .rounds = rounds};
}

void add(std::vector<Arm>& arms, const Scenario& scenario, const std::string& optimizer,
         const std::string& wire, laconic::plan::MethodStep method, const Rounds& rounds) {
  for (const Topology topology : {Topology::kFlat, Topology::kNodes}) {
    if (topology == Topology::kNodes && scenario.cluster.per_node == 1) continue;
    method.topology = topology;
    arms.push_back({.optimizer = optimizer,
                    .wire = wire,
                    .exchange = name_of(topology),
                    .method = method,
                    .rounds = rounds});
  }
}

std::vector<Arm> arms_of(const Scenario& scenario) {
  const std::int64_t steps = scenario.rounds.begin()->second.steps;
  const Rounds exact{steps, steps, 0};
  std::vector<Arm> arms{all_reduce(false, exact), all_reduce(true, exact)};
  for (const std::string& optimizer : scenario.optimizers) {
    const OptimizerConfig config = config_of(optimizer, steps);
    const Method& method = method_named(config.algorithm);
    const Rounds& rounds = scenario.rounds.at(optimizer);
    if (method.spacing || optimizer != method.name) {
      const std::string codec = method.codec_of(config);
      add(arms, scenario, optimizer, codec == "sign" ? "1 bit" : codec,
          laconic::plan::method_of(config), rounds);
    } else if (method.exact) {
      for (const bool bf16 : {false, true})
        add(arms, scenario, optimizer, bf16 ? "bf16" : "fp32",
            {.algorithm = optimizer, .bf16 = bf16}, rounds);
      if (method.find("codec") == nullptr) continue;
      for (const char* codec : {"int8", "int4"})
        add(arms, scenario, optimizer, codec, {.algorithm = optimizer, .codec = codec},
            {.steps = steps, .coded = steps});
    } else if (method.codec == "random-sign") {
      for (const auto& [wire, form] : {std::pair("two-round", RandomForm::kTwoRound),
                                       std::pair("single-round", RandomForm::kSingleRound),
                                       std::pair("count", RandomForm::kCount)})
        add(arms, scenario, optimizer, wire, {.algorithm = optimizer, .form = form}, rounds);
    } else if (method.codec == kVote) {
      for (const auto& [wire, form] :
           {std::pair("vote", RandomForm::kTwoRound), std::pair("count", RandomForm::kCount)})
        add(arms, scenario, optimizer, wire, {.algorithm = optimizer, .form = form}, rounds);
    } else {
      add(arms, scenario, optimizer, method.codec == "sign" ? "1 bit" : method.codec,
          {.algorithm = optimizer,
           .bf16 = scenario.bf16,
           .dense_codec = method.dense_with ? scenario.dense_codec : ""},
          rounds);
    }
  }
  return arms;
}

laconic::plan::Average cost_at(const Scenario& scenario, const laconic::plan::Cluster& cluster,
                               const Arm& arm) {
  return laconic::plan::predict(cluster, scenario.work, scenario.speeds, arm.method, arm.rounds);
}

constexpr double kWorthIt = 1.03;

// Where the coded one gains enough over whatever dense one is best there.
std::string where(const Scenario& scenario, const Arm& coded, const std::vector<Arm>& arms) {
  if (scenario.cluster.nodes == 1) return "";
  const auto seconds = [&](const laconic::plan::Cluster& at, const Arm& arm) {
    return cost_at(scenario, at, arm).mean.seconds;
  };
  const double rate = laconic::plan::break_even(
      scenario.cluster,
      [&](const laconic::plan::Cluster& at) { return kWorthIt * seconds(at, coded); },
      [&](const laconic::plan::Cluster& at) {
        double least = std::numeric_limits<double>::infinity();
        for (const Arm& arm : arms)
          if (arm.dense()) least = std::min(least, seconds(at, arm));
        return least;
      });
  return std::isinf(rate) ? " It gains that at any rate between nodes."
         : rate == 0      ? " It gains that at no rate between nodes."
                          : fmt::format(" It gains that below {} between nodes.", rate_text(rate));
}

}  // namespace

std::vector<std::string> default_optimizers() {
  std::vector<std::string> names = {kBaseline};
  for (const Method* method : methods())
    if (method->shown) names.push_back(method->name);
  return names;
}

std::vector<std::string> planned_optimizers() {
  std::vector<std::string> names;
  for (const Method* method : methods()) names.push_back(method->name);
  return names;
}

OptimizerConfig config_of(const std::string& optimizer, std::int64_t steps) {
  OptimizerConfig config;
  std::string_view words = optimizer;
  training::set_method(config, words);
  training::set_options(config, words);
  config.total_steps = steps;
  return validated(config);
}

std::vector<Arm> compare(const Scenario& scenario) {
  std::vector<Arm> arms = arms_of(scenario);
  for (Arm& arm : arms) {
    arm.cost = cost_at(scenario, scenario.cluster, arm);
    arm.memory = laconic::plan::memory_bytes(scenario.cluster, scenario.work, arm.method);
  }
  const auto seconds_of = [&](const Arm& arm) {
    return
        [&](const laconic::plan::Cluster& at) { return cost_at(scenario, at, arm).mean.seconds; };
  };
  const auto fp32 = seconds_of(arms[0]), bf16 = seconds_of(arms[1]);
  for (Arm& arm : arms) {
    const auto mine = seconds_of(arm);
    arm.over_fp32 = arms[0].seconds() / arm.seconds();
    arm.over_bf16 = arms[1].seconds() / arm.seconds();
    if (scenario.cluster.nodes == 1) continue;
    arm.pays_below_fp32 = laconic::plan::break_even(scenario.cluster, mine, fp32);
    arm.pays_below_bf16 = laconic::plan::break_even(scenario.cluster, mine, bf16);
  }
  return arms;
}

std::vector<Arm> best_exchanges(const std::vector<Arm>& arms) {
  std::vector<Arm> best;
  for (const Arm& arm : arms) {
    const auto same = std::find_if(best.begin(), best.end(), [&](const Arm& other) {
      return other.name() == arm.name() &&
             (other.exchange == "all-reduce") == (arm.exchange == "all-reduce");
    });
    if (same == best.end())
      best.push_back(arm);
    else if (arm.seconds() < same->seconds())
      *same = arm;
  }
  return best;
}

std::vector<Point> sweep(const Scenario& scenario, const std::vector<Arm>& arms, double from,
                         double to, int points) {
  std::vector<Point> all;
  for (int p = 0; p < points; ++p) {
    const double rate = from * std::pow(to / from, p / (points - 1.0));
    const laconic::plan::Cluster cluster = scenario.cluster.at_rate(rate);
    Point point{rate, {}};
    for (const Arm& arm : arms)
      point.seconds.push_back(cost_at(scenario, cluster, arm).mean.seconds);
    all.push_back(std::move(point));
  }
  return all;
}

std::string advice(const Scenario& scenario, const std::vector<Arm>& arms) {
  const auto faster = [](const Arm& a, const Arm& b) { return a.seconds() < b.seconds(); };
  const Arm* dense = nullptr;
  const Arm* coded = nullptr;
  for (const Arm& arm : arms) {
    const Arm*& kind = arm.dense() ? dense : coded;
    if (kind == nullptr || faster(arm, *kind)) kind = &arm;
  }
  const auto in_ms = [](const Arm& arm) { return 1e3 * arm.seconds(); };
  if (coded == nullptr)
    return fmt::format("Of the dense ones use {} ({}): {:.1f} ms per step.", dense->name(),
                       dense->exchange, in_ms(*dense));
  if (dense->seconds() < kWorthIt * coded->seconds())
    return fmt::format(
        "Use dense {} ({}), {:.1f} ms per step: the best coded exchange, {} ({}), needs {:.1f} ms "
        "and does not gain 3 %.{}",
        dense->wire, dense->exchange, in_ms(*dense), coded->name(), coded->exchange, in_ms(*coded),
        where(scenario, *coded, arms));
  return fmt::format(
      "Use {} ({}), {:.1f} ms per step: {:.2f}x as fast as a dense all-reduce in fp32, {:.2f}x in "
      "bf16, {:.2f}x the best dense one ({} {}): more than 3 %.{}",
      coded->name(), coded->exchange, in_ms(*coded), coded->over_fp32, coded->over_bf16,
      dense->seconds() / coded->seconds(), dense->wire, dense->exchange,
      where(scenario, *coded, arms));
}

}  // namespace laconic::app::plan
