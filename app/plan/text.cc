#include "app/plan/text.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "app/units.h"
#include "laconic/optim/method.h"
#include "laconic/optim/spelling.h"

namespace laconic::app::plan {
namespace {

using nlohmann::json;

std::string limit_text(double rate) {
  return std::isinf(rate) ? "always" : rate == 0 ? "never" : rate_text(rate);
}

json limit_json(double rate) {
  if (std::isinf(rate)) return {{"pays", "always"}, {"bit_per_second", nullptr}};
  if (rate == 0) return {{"pays", "never"}, {"bit_per_second", nullptr}};
  return {{"pays", "below"}, {"bit_per_second", 8 * rate}};
}

json link_json(const Link& link) {
  json rate = nullptr;
  if (std::isfinite(link.bytes_per_second)) rate = 8 * link.bytes_per_second;
  return {{"bit_per_second", rate}, {"latency_seconds", link.latency_seconds}};
}

json forecast_json(const laconic::plan::Forecast& forecast) {
  return {{"seconds", forecast.seconds},
          {"exposed_seconds", forecast.exposed},
          {"coding_seconds", forecast.coding},
          {"inter_busy_seconds", forecast.inter_busy},
          {"intra_busy_seconds", forecast.intra_busy},
          {"bytes_inside_node", forecast.bytes_inside},
          {"bytes_between_nodes", forecast.bytes_between}};
}

// Seconds per element, per message and per byte.
json speeds_json(laconic::plan::Speeds speeds) {
  json all;
  for (const auto& [name, seconds] : speeds.fields()) all[name] = *seconds;
  return all;
}

json row(const Plan& plan, const Arm& arm) {
  json row = forecast_json(arm.cost.mean);
  row["optimizer"] = arm.optimizer;
  row["wire"] = arm.wire;
  row["exchange"] = arm.exchange;
  row["steps_per_second"] = 1 / arm.seconds();
  if (plan.batch > 0)
    row["samples_per_second"] = plan.batch * plan.scenario.cluster.ranks() / arm.seconds();
  row["speedup_over_fp32"] = arm.over_fp32;
  row["speedup_over_bf16"] = arm.over_bf16;
  row["memory_bytes"] = arm.memory;
  if (plan.scenario.cluster.nodes > 1) {
    row["pays_against_fp32"] = limit_json(arm.pays_below_fp32);
    row["pays_against_bf16"] = limit_json(arm.pays_below_bf16);
  }
  row["shares"] = {{"dense", arm.cost.dense_share},
                   {"coded", arm.cost.coded_share},
                   {"silent", arm.cost.silent_share}};
  const auto kind = [&](const char* name, double share, const laconic::plan::Forecast& forecast) {
    if (share > 0) row["steps"][name] = forecast_json(forecast);
  };
  kind("dense", arm.cost.dense_share, arm.cost.dense);
  kind("coded", arm.cost.coded_share, arm.cost.coded);
  kind("silent", arm.cost.silent_share, arm.cost.silent);
  return row;
}

json rounds_json(const Rounds& rounds) {
  return {{"dense_rounds", rounds.dense},
          {"coded_rounds", rounds.coded},
          {"rounds", rounds.rounds()},
          {"bits_per_parameter_per_step", rounds.bits_per_parameter_per_step(16, 1)},
          {"bits_with_fp32_rounds", rounds.bits_per_parameter_per_step(32, 1.008)}};
}

constexpr double kHeadlineVolume = 0.87, kHeadlineRounds = 0.54;
constexpr std::int64_t kLongSequences = 10'000;  // steps at length 512 after BERT-Large's own

// The same policies carried on; volume is per step, against the bits of the shorter run.
laconic::plan::Recipe carried_on(laconic::plan::Recipe recipe) {
  recipe.steps += kLongSequences;
  return recipe;
}
double volume_carried_on(const laconic::plan::Recipe& recipe) {
  return 1 - carried_on(recipe).local_steps().bits_per_parameter_per_step(16, 1) /
                 recipe.every_step().bits_per_parameter_per_step(16, 1);
}
bool has_long_sequences(const laconic::plan::Recipe& recipe) {
  return std::string(recipe.name) == "bert-large";
}

std::string against(const char* what, double has, double headline) {
  const double points = 100 * (has - headline);
  const std::string relation = std::abs(points) < 1
                                   ? "which agrees with the headline's"
                                   : fmt::format("{:.1f} points {} the headline's",
                                                 std::abs(points), points < 0 ? "below" : "above");
  return fmt::format("{}: {:.1f} % saved, {} {:.0f} %.", what, 100 * has, relation, 100 * headline);
}

std::string verdict(const laconic::plan::Recipe& recipe) {
  const bool longer = has_long_sequences(recipe);
  const double volume = longer ? volume_carried_on(recipe) : recipe.volume_reduction(16, 1);
  const double rounds = longer ? carried_on(recipe).round_reduction() : recipe.round_reduction();
  return fmt::format("{}{} {}{}", longer ? "Carried on for 10,000 steps: " : "",
                     against("Rounds", rounds, kHeadlineRounds),
                     against("Bits", volume, kHeadlineVolume),
                     recipe.verified ? ""
                                     : " This recipe's steps are recalled, not read in a "
                                       "publication: take it as an example.");
}

}  // namespace

void print(const Plan& plan) {
  const auto& [cluster, work, speeds, optimizers, bf16, dense_codec, rounds] = plan.scenario;
  fmt::print("# {}, {} parameters, {:.1f} ms forward and backward ({:.0f} % backward)\n",
             plan.model, work.parameters, 1e3 * work.step_seconds, 100 * work.backward_share);
  fmt::print("# {} nodes of {} ranks", cluster.nodes, cluster.per_node);
  if (cluster.nodes > 1)
    fmt::print(", {} and {} between nodes", rate_text(cluster.inter.bytes_per_second),
               time_text(cluster.inter.latency_seconds));
  if (cluster.per_node > 1)
    fmt::print(", {} and {} inside", rate_text(cluster.intra.bytes_per_second),
               time_text(cluster.intra.latency_seconds));
  fmt::print("\n");
  for (const std::string& note : plan.notes) fmt::print("# {}\n", note);
  fmt::print("{:<28} {:<10} {:>9} {:>8} {:>7} {:>7} {:>9} {:>9} {:>11} {:>11} {:>8} {:>20}  {}\n",
             "optimizer", "exchange", "ms/step", plan.batch > 0 ? "sample/s" : "step/s", "x fp32",
             "x bf16", "exposed", "coding", "MB inside", "MB between", "GB/rank",
             "beats bf16 below", "steps (dense/coded/local)");
  for (const Arm& arm : plan.best) {
    const laconic::plan::Forecast& mean = arm.cost.mean;
    const double rate =
        (plan.batch > 0 ? plan.batch * cluster.ranks() * std::max(1, plan.shards) : 1) /
        arm.seconds();
    fmt::print(
        "{:<28} {:<10} {:>9.2f} {:>8.4g} {:>7.2f} {:>7.2f} {:>9.2f} {:>9.2f} {:>11.3f} {:>11.3f} "
        "{:>8.2f} {:>20}  {:.0f}/{:.0f}/{:.0f} %\n",
        arm.name(), arm.exchange, 1e3 * mean.seconds, rate, arm.over_fp32, arm.over_bf16,
        1e3 * mean.exposed, 1e3 * mean.coding, mean.bytes_inside / 1e6, mean.bytes_between / 1e6,
        arm.memory / 1e9, cluster.nodes > 1 ? limit_text(arm.pays_below_bf16) : "-",
        100 * arm.cost.dense_share, 100 * arm.cost.coded_share, 100 * arm.cost.silent_share);
  }
  if (!plan.sweep.empty()) {
    fmt::print("\n# fastest by the rate between nodes\n");
    std::size_t before = plan.best.size();
    for (const Point& point : plan.sweep) {
      const auto least = static_cast<std::size_t>(
          std::min_element(point.seconds.begin(), point.seconds.end()) - point.seconds.begin());
      if (least != before)
        fmt::print("from {:>12}: {} ({}), {:.2f} ms\n", rate_text(point.rate),
                   plan.best[least].name(), plan.best[least].exchange, 1e3 * point.seconds[least]);
      before = least;
    }
  }
  fmt::print("\n{}\n", plan.advice);
}

nlohmann::json to_json(const Plan& plan) {
  const auto& [cluster, work, speeds, optimizers, bf16, dense_codec, rounds] = plan.scenario;
  json all{{"model", plan.model},
           {"parameters", work.parameters},
           {"step_seconds", work.step_seconds},
           {"backward_share", work.backward_share},
           {"nodes", cluster.nodes},
           {"per_node", cluster.per_node},
           {"shards", plan.shards},
           {"inter", link_json(cluster.inter)},
           {"intra", link_json(cluster.intra)},
           {"steps", rounds.begin()->second.steps},
           {"notes", plan.notes},
           {"speeds", speeds_json(plan.scenario.speeds)},
           {"rows", json::array()},
           {"advice", plan.advice}};
  for (const Arm& arm : plan.arms) all["rows"].push_back(row(plan, arm));
  for (const Point& point : plan.sweep) {
    json seconds;
    for (std::size_t i = 0; i < plan.best.size(); ++i)
      seconds[plan.best[i].name() + ", " + plan.best[i].exchange] = point.seconds[i];
    all["sweep"].push_back({{"inter_bit_per_second", 8 * point.rate}, {"seconds", seconds}});
  }
  return all;
}

namespace {

const std::string& title(const char* method) { return method_named(method).title; }

}  // namespace

void print(const laconic::plan::Recipe& recipe) {
  fmt::print(
      "# {}: {} steps; {} is dense until {}; {}: variance until {}, kappa {}, intervals double "
      "every {} up to {}\n",
      recipe.name, recipe.steps, title(laconic::plan::kEveryStep), recipe.freeze_step,
      title(laconic::plan::kLocalSteps), recipe.variance_freeze_step, recipe.variance_kappa,
      recipe.double_every, recipe.max_interval);
  fmt::print("{:<16} {:>8} {:>8} {:>8} {:>22} {:>22}\n", "", "dense", "coded", "rounds",
             "bits, 16-bit dense", "bits, fp32 dense");
  const auto line = [](const std::string& name, const Rounds& rounds) {
    fmt::print("{:<16} {:>8} {:>8} {:>8} {:>22.3f} {:>22.3f}\n", name, rounds.dense, rounds.coded,
               rounds.rounds(), rounds.bits_per_parameter_per_step(16, 1),
               rounds.bits_per_parameter_per_step(32, 1.008));
  };
  line(title(laconic::plan::kEveryStep), recipe.every_step());
  line(title(laconic::plan::kLocalSteps), recipe.local_steps());
  const auto saved = [](const char* name, double rounds, double with_16, double with_32) {
    fmt::print("{:<16} {:>26.1f} {:>22.1f} {:>22.1f}\n", name, 100 * rounds, 100 * with_16,
               100 * with_32);
  };
  saved("saved, %", recipe.round_reduction(), recipe.volume_reduction(16, 1),
        recipe.volume_reduction(32, 1.008));
  if (has_long_sequences(recipe))
    fmt::print("{:<16} {:>26.1f} {:>22.1f}\n", "carried on, %",
               100 * carried_on(recipe).round_reduction(), 100 * volume_carried_on(recipe));
  fmt::print("{:<16} {:>26.1f} {:>22.1f}   (\"up to\")\n", "headline, %", 100 * kHeadlineRounds,
             100 * kHeadlineVolume);
  fmt::print("\n{}\n", verdict(recipe));
}

nlohmann::json to_json(const laconic::plan::Recipe& recipe) {
  json all{
      {"recipe", recipe.name},
      {"steps", recipe.steps},
      {"verified", recipe.verified},
      {spelled(laconic::plan::kEveryStep), rounds_json(recipe.every_step())},
      {spelled(laconic::plan::kLocalSteps), rounds_json(recipe.local_steps())},
      {"volume_reduction", recipe.volume_reduction(16, 1)},
      {"volume_reduction_with_fp32_rounds", recipe.volume_reduction(32, 1.008)},
      {"round_reduction", recipe.round_reduction()},
      {"headline", {{"volume_reduction", kHeadlineVolume}, {"round_reduction", kHeadlineRounds}}},
      {"verdict", verdict(recipe)}};
  if (has_long_sequences(recipe))
    all["carried_on"] = {{"steps", carried_on(recipe).steps},
                         {"volume_reduction", volume_carried_on(recipe)},
                         {"round_reduction", carried_on(recipe).round_reduction()}};
  return all;
}

}  // namespace laconic::app::plan
