#include "laconic/plan/cost.h"

#include <algorithm>
#include <cmath>

#include "laconic/collective/conveyor.h"
#include "laconic/core/error.h"
#include "laconic/optim/cuts.h"
#include "laconic/optim/spelling.h"
#include "laconic/plan/exchange.h"
#include "laconic/plan/stragglers.h"

namespace laconic::plan {
namespace {

constexpr const char* kExample =
    "8 nodes of 8 ranks, 10gbit,20us between nodes and 600gbit,3us inside";

void check(const Link& link, const char* where) {
  if (!(link.bytes_per_second > 0) || !(link.latency_seconds >= 0) ||
      std::isinf(link.latency_seconds))
    fail(Code::kInvalidArgument,
         "a link {} of {} bytes/s and {} s: the rate must be above 0 and the latency at least 0, "
         "as in {}",
         where, link.bytes_per_second, link.latency_seconds, kExample);
}

void check(const Cluster& cluster) {
  if (cluster.nodes < 1 || cluster.per_node < 1)
    fail(Code::kInvalidArgument, "{} nodes of {} ranks: there must be at least 1 of both, as in {}",
         cluster.nodes, cluster.per_node, kExample);
  if (cluster.per_node > 1024 || cluster.nodes > 65535 / cluster.per_node)
    fail(Code::kInvalidArgument,
         "{} nodes of {} ranks: at most 1024 ranks a node and 65535 in all, as in {}",
         cluster.nodes, cluster.per_node, kExample);
  if (!cluster.inter_of.empty() &&
      cluster.inter_of.size() != static_cast<std::size_t>(cluster.nodes))
    fail(Code::kInvalidArgument, "links of {} nodes for {} nodes: give one each, or one for all",
         cluster.inter_of.size(), cluster.nodes);
  for (const Link& link : cluster.inter_of) check(link, "between nodes");
  check(cluster.inter, "between nodes");
  check(cluster.intra, "inside a node");
}

void check(const Work& work) {
  if (work.parameters < 1 || work.parameters >> 40 != 0)
    fail(Code::kInvalidArgument, "{} parameters: give 1 to 2^40, e.g. 110000000", work.parameters);
  if (!(work.step_seconds >= 0) || !std::isfinite(work.step_seconds))
    fail(Code::kInvalidArgument, "a step of {} s: give at least 0, e.g. 0.09", work.step_seconds);
  if (!(work.backward_share >= 0 && work.backward_share <= 1))
    fail(Code::kInvalidArgument, "a backward share of {}: give 0 to 1, e.g. 0.67",
         work.backward_share);
  if (work.bucket_elements < 1 || work.bucket_elements >> 32 != 0)
    fail(Code::kInvalidArgument, "buckets of {} elements: give 1 to 2^32, e.g. 6553600",
         work.bucket_elements);
  if (!(work.spread >= 0 && work.spread <= 1))
    fail(Code::kInvalidArgument, "a spread of step times of {}: give 0 to 1, e.g. 0.2",
         work.spread);
  if (!(work.slowest >= 1) || !std::isfinite(work.slowest))
    fail(Code::kInvalidArgument, "a slowest rank of {} times a step: give at least 1, e.g. 1.3",
         work.slowest);
}

// In the order of exchange: the last bucket, which may be short, comes first.
std::vector<Cut> buckets_of(const Work& work, int fragments) {
  Model model;
  model.groups = {{.name = "", .elements = work.parameters}};
  std::vector<Cut> all = cuts_of(model, fragments, work.bucket_elements);
  if (!work.ready.empty() && work.ready.size() != all.size())
    fail(Code::kInvalidArgument, "{} ready times for {} buckets: give one each", work.ready.size(),
         all.size());
  std::reverse(all.begin(), all.end());
  return all;
}

// The average of the momenta: a mean of memory, which is stored.
MethodStep momentum_of(MethodStep method) {
  method.codec = method_named(method.algorithm).momentum_codec;
  method.codec_down.clear();
  method.momentum = method.update = false;
  return method;
}

// A step that exchanges this fragment.
Forecast run(const Cluster& cluster, const Work& work, const Speeds& speeds,
             const MethodStep& method, int fragment = kAllFragments, bool overlaps = true) {
  const bool seldom = method_named(method.algorithm).spacing != nullptr;
  const auto buckets = buckets_of(work, method.spacing.fragments);
  const int slices = seldom ? kSlicesWhereSeldom : work.useful_slices;
  const std::size_t longest = std::ranges::max(buckets, {}, &Cut::count).count;
  Rank rank(cluster, work, speeds, slices,
            overlaps && buckets.size() > 1 ? Conveyor::lag_for(longest, slices) : Outbox::kLag);
  const bool others = method.topology == Topology::kAllReduce && method.step == Step::Kind::kDense;
  double arrival = 0, waiting = 0;  // of others: the bucket under way, and its update
  std::vector<double> ready = work.ready;
  if (double done = 0; ready.empty())
    for (const Cut& bucket : buckets)
      ready.push_back((done += static_cast<double>(bucket.count)) /
                      static_cast<double>(work.parameters));
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const std::size_t elements = buckets[b].count;
    const bool rests = fragment != kAllFragments && buckets[b].fragment != fragment;
    rank.wait_for_backward(ready[b]);
    // Ranks announce what they have with each bucket while some backward pass goes on.
    const double heard = rank.has(1) ? 0 : rank.now() + cluster.slowest().latency_seconds;
    const bool has_next = overlaps && b + 1 < buckets.size() && rank.has(ready[b + 1]);
    if (method.step == Step::Kind::kSilent || rests) {
      rank.code(cost_of(speeds, method).local * static_cast<double>(elements));
    } else if (others) {
      const double next = all_reduce(rank, method, elements);
      rank.wait_until(arrival);
      rank.code(waiting);
      arrival = next;
      waiting = all_reduce_coding(speeds, method, elements);
    } else {
      exchange(rank, method, elements);
      if (method.momentum) exchange(rank, momentum_of(method), elements);
      rank.wait_until(heard);
      if (!has_next || method.momentum) rank.drain();
    }
  }
  rank.drain();
  rank.wait_until(arrival);
  rank.code(waiting);
  rank.wait_for_backward(1);
  return rank.forecast();
}

void add(Forecast& sum, double share, const Forecast& one) {
  sum.seconds += share * one.seconds;
  sum.exposed += share * one.exposed;
  sum.coding += share * one.coding;
  sum.inter_busy += share * one.inter_busy;
  sum.intra_busy += share * one.intra_busy;
  sum.bytes_inside += share * one.bytes_inside;
  sum.bytes_between += share * one.bytes_between;
  sum.beside = std::max(sum.beside, one.beside);
}

// A step, and what the exchange of a fragment that runs beside the next steps adds to it: a snapshot,
// the outer step, coding where that takes turns with training, and the wait for what is not there.
Forecast run_beside(const Cluster& cluster, const Work& work, const Speeds& speeds,
                    MethodStep method, int fragment) {
  std::size_t elements = 0;
  for (const Cut& one : buckets_of(work, method.spacing.fragments))
    if (one.fragment == fragment) elements += one.count;
  const auto count = static_cast<double>(elements);
  const MethodCost& cost = cost_of(speeds, method);
  const auto delay = static_cast<double>(method.spacing.delay);
  MethodStep silent = method;
  silent.step = Step::Kind::kSilent;
  Forecast step = run(cluster, work, speeds, silent);
  method.update = false;
  method.spacing = {};
  const Forecast alone = run(cluster,
                             {.parameters = elements,
                              .bucket_elements = work.bucket_elements,
                              .useful_slices = work.useful_slices},
                             speeds, method, kAllFragments, false);
  const double source = cost.coded.before * count;  // which the mean of a vector in memory lacks
  const double coding = alone.coding + source;
  const double takes_turns = work.shares_cores ? coding : 0;
  const double window = delay * step.seconds + takes_turns;
  step.beside = alone.seconds + source + takes_turns;
  step.exposed = std::max(0.0, step.beside - window);
  step.seconds += takes_turns + (speeds.copy + cost.coded.after) * count + step.exposed;
  step.coding += coding + (speeds.copy + cost.coded.after) * count;
  step.inter_busy = alone.inter_busy;
  step.intra_busy = alone.intra_busy;
  step.bytes_inside = alone.bytes_inside;
  step.bytes_between = alone.bytes_between;
  return step;
}

Forecast predict_fragment(const Cluster& cluster, const Work& work, const Speeds& speeds,
                          const MethodStep& method, int fragment) {
  if (method.spacing.delay > 0) return run_beside(cluster, work, speeds, method, fragment);
  if (method.spacing.fragments == 1) fragment = kAllFragments;
  Cluster limitless = cluster;
  limitless.inter = limitless.intra = {};
  limitless.inter_of.clear();
  Speeds at_once = speeds;
  at_once.message = at_once.byte = 0;
  Forecast forecast = run(cluster, work, speeds, method, fragment);
  const double unhindered = run(limitless, work, at_once, method, fragment).seconds;
  forecast.exposed = std::max(0.0, forecast.seconds - unhindered);
  return forecast;
}

// What unequal step times add to the mean step of a run, in which `share` of the steps exchange.
double straggling(const Cluster& cluster, const Work& work, const MethodStep& method, double share,
                  const Forecast& silent, const Forecast& exchanging) {
  double more = (work.slowest - 1) * work.step_seconds;  // sooner or later all wait for it
  if (work.spread == 0 || share == 0 || cluster.ranks() == 1) return more;
  const bool beside = method.spacing.delay > 0;
  const double between = beside ? exchanging.seconds - exchanging.exposed : exchanging.seconds;
  Race race{.ranks = cluster.ranks(),
            .step = silent.seconds,
            .interval = 1 / share,
            .delay = beside ? static_cast<double>(method.spacing.delay) : 0,
            .exchange = beside ? exchanging.beside : between - silent.seconds,
            .work = beside ? between - silent.seconds : 0};
  const double alike = seconds_per_step(race);
  race.deviation = work.spread * work.step_seconds;
  return more + std::max(0.0, seconds_per_step(race) - alike);
}

}  // namespace

void shard(Cluster& cluster, Work& work, int shards) {
  if (shards < 1 || shards > 1024 || (cluster.per_node != 1 && cluster.per_node != shards))
    fail(Code::kInvalidArgument,
         "{} shards in nodes of {} ranks: give 1 to 1024 shards, which are the ranks of a node",
         shards, cluster.per_node);
  const auto parts = static_cast<std::size_t>(shards);
  cluster.per_node = 1;
  cluster.inter.bytes_per_second /= shards;
  for (Link& one : cluster.inter_of) one.bytes_per_second /= shards;
  work.parameters = (work.parameters + parts - 1) / parts;
}

Link Cluster::slowest() const noexcept {
  Link least = inter_of.empty() ? inter : inter_of.front();
  for (const Link& one : inter_of) {
    least.bytes_per_second = std::min(least.bytes_per_second, one.bytes_per_second);
    least.latency_seconds = std::max(least.latency_seconds, one.latency_seconds);
  }
  return least;
}

Cluster Cluster::at_rate(double bytes_per_second) const {
  Cluster at = *this;
  at.inter.bytes_per_second = bytes_per_second;
  const double factor = bytes_per_second / slowest().bytes_per_second;
  for (Link& one : at.inter_of) one.bytes_per_second *= factor;
  return at;
}

MethodStep method_of(const OptimizerConfig& config) {
  const Method& method = method_named(config.algorithm);
  const std::string codec = method.codec_of(config), dense = method.dense_codec_of(config);
  const bool own = !is_exact(codec) && codec != method.codec;
  return {.algorithm = method.name,
          .bf16 = codec == "bf16" || dense == "bf16" || config.bf16,
          .form = config.form,
          .scale_block = config.scale_block,
          .quant_block = config.quant_block,
          .codec = own ? codec : "",
          .codec_down = method.codec_down_of(config),
          .top_k = config.top_k,
          .dense_codec = is_exact(dense) ? "" : dense,
          .spacing = method.spacing ? method.spacing(config) : Spacing{}};
}

Speeds::Speeds() {
  for (const Method* one : laconic::methods()) methods[one->name] = one->cost;
}

std::vector<std::pair<std::string, double*>> Speeds::fields() {
  std::vector<std::pair<std::string, double*>> all = {{"copy", &copy},
                                                      {"add_values", &add_values},
                                                      {"narrow", &narrow},
                                                      {"widen", &widen},
                                                      {"encode", &encode},
                                                      {"add_signs", &add_signs},
                                                      {"decode", &decode},
                                                      {"draw", &draw},
                                                      {"count_signs", &count_signs},
                                                      {"redraw", &redraw}};
  for (auto& [name, cost] : methods) {
    const std::string field = spelled(name);
    auto& exchange = method_named(name).exact ? cost.exact : cost.coded;
    all.emplace_back(field + "_before", &exchange.before);
    all.emplace_back(field + "_after", &exchange.after);
    if (cost.local > 0) all.emplace_back(field + "_local", &cost.local);
  }
  all.emplace_back("message", &message);
  all.emplace_back("byte", &byte);
  return all;
}

Speeds Speeds::faster(double times) const {
  Speeds fast = *this;
  for (const auto& [name, seconds] : fast.fields())
    if (seconds != &fast.message && seconds != &fast.byte) *seconds /= times;
  return fast;
}

Forecast predict(const Cluster& cluster, const Work& work, const Speeds& speeds,
                 const MethodStep& method) {
  check(cluster);
  check(work);
  if (method.topology == Topology::kAllReduce && method.step == Step::Kind::kCoded)
    fail(Code::kInvalidArgument, "an all-reduce is dense: coded steps are flat or on nodes");
  if (method.step == Step::Kind::kSilent) return run(cluster, work, speeds, method);
  const int fragments = method.spacing.fragments;
  Forecast mean;
  for (int f = 0; f < fragments; ++f)
    add(mean, 1.0 / fragments, predict_fragment(cluster, work, speeds, method, f));
  return mean;
}

Average predict(const Cluster& cluster, const Work& work, const Speeds& speeds, MethodStep method,
                const Rounds& rounds) {
  if (rounds.steps < 1)
    fail(Code::kInvalidArgument, "a run of {} steps: give at least 1, e.g. 100000", rounds.steps);
  Average all;
  // In fragments a round takes several steps.
  const auto steps_of = [&](std::int64_t of_kind) {
    return rounds.fragments > 0 && of_kind > 0 ? rounds.fragments : of_kind;
  };
  const std::int64_t dense = std::min(rounds.steps, steps_of(rounds.dense));
  const std::int64_t coded = std::min(rounds.steps - dense, steps_of(rounds.coded));
  const auto share = [&](std::int64_t steps) {
    return static_cast<double>(steps) / static_cast<double>(rounds.steps);
  };
  all.dense_share = share(dense);
  all.coded_share = share(coded);
  all.silent_share = share(rounds.steps - dense - coded);
  const double momentum = share(rounds.momentum);
  const auto one = [&](Step::Kind kind, double share, Forecast& out) {
    if (share == 0) return;
    method.step = kind;
    const double more = kind == Step::Kind::kCoded ? momentum : 0;
    for (const bool with : {false, true}) {
      const double part = with ? more : share - more;
      if (part == 0) continue;
      method.momentum = with;
      add(out, part / share, predict(cluster, work, speeds, method));
    }
    add(all.mean, share, out);
  };
  one(Step::Kind::kDense, all.dense_share, all.dense);
  one(Step::Kind::kCoded, all.coded_share, all.coded);
  one(Step::Kind::kSilent, all.silent_share, all.silent);
  if (work.spread == 0 && work.slowest == 1) return all;
  Forecast silent = all.silent, exchanging;
  if (all.silent_share == 0) {
    method.step = Step::Kind::kSilent;
    silent = predict(cluster, work, speeds, method);
  }
  const double exchanges = all.dense_share + all.coded_share;
  if (exchanges > 0) {
    add(exchanging, all.dense_share / exchanges, all.dense);
    add(exchanging, all.coded_share / exchanges, all.coded);
  }
  const double more = straggling(cluster, work, method, exchanges, silent, exchanging);
  all.mean.seconds += more;
  all.mean.exposed += more;
  return all;
}

double memory_bytes(const Cluster& cluster, const Work& work, const MethodStep& method) {
  const double local = method.topology == Topology::kNodes ? cluster.per_node : 1;
  const double weights_and_gradient = 8, server = 4.0 / cluster.ranks();
  const MethodCost& cost = method_named(method.algorithm).cost;
  // A lossy codec where a method is exact by default keeps residuals.
  double residuals = 0;
  for (const std::string& codec : {method.codec, method.dense_codec})
    if (!codec.empty() && !is_exact(codec)) residuals += 4;
  const double of_node = cost.state_of_node + residuals, of_all = cost.state_of_all + residuals;
  const double under_way = method.spacing.delay > 0 ? 8 : 0;  // a snapshot and the mean
  const double state = cost.state + under_way + of_node / local + of_all * server / 4;
  return (weights_and_gradient + state) * static_cast<double>(work.parameters);
}

double break_even(const Cluster& cluster, FunctionRef<double(const Cluster&)> ours,
                  FunctionRef<double(const Cluster&)> theirs) {
  const auto pays = [&](double rate) {
    const Cluster at = cluster.at_rate(rate);
    return ours(at) <= theirs(at);
  };
  constexpr double kStep = 4, kPrecision = 1.01;
  if (pays(kHighestRate)) return std::numeric_limits<double>::infinity();
  double low = kHighestRate / kStep;
  while (low >= kLowestRate && !pays(low)) low /= kStep;
  if (low < kLowestRate) return 0;
  double high = low * kStep;
  while (high > kPrecision * low) {
    const double middle = std::sqrt(low * high);
    (pays(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace laconic::plan
