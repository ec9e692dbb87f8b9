#include "laconic/plan/cost.h"

#include <algorithm>
#include <cmath>

#include "laconic/core/error.h"
#include "laconic/optim/spelling.h"
#include "laconic/plan/exchange.h"

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
  const std::size_t buckets = (work.parameters + work.bucket_elements - 1) / work.bucket_elements;
  if (!work.ready.empty() && work.ready.size() != buckets)
    fail(Code::kInvalidArgument, "{} ready times for {} buckets: give one each", work.ready.size(),
         buckets);
}

// Lengths in the order of exchange: the last bucket, which may be short, comes first.
std::vector<std::size_t> buckets_of(const Work& work) {
  std::vector<std::size_t> all;
  for (std::size_t at = 0; at < work.parameters; at += work.bucket_elements)
    all.push_back(std::min(work.bucket_elements, work.parameters - at));
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

Forecast run(const Cluster& cluster, const Work& work, const Speeds& speeds,
             const MethodStep& method) {
  Rank rank(cluster, work, speeds);
  const auto buckets = buckets_of(work);
  const bool others = method.topology == Topology::kAllReduce && method.step == Step::Kind::kDense;
  double done = 0, arrival = 0, waiting = 0;  // of others: the bucket under way, and its update
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    done += static_cast<double>(buckets[b]);
    rank.wait_for_backward(work.ready.empty() ? done / static_cast<double>(work.parameters)
                                              : work.ready[b]);
    if (method.step == Step::Kind::kSilent) {
      rank.code(cost_of(speeds, method).local * static_cast<double>(buckets[b]));
    } else if (others) {
      const double next = all_reduce(rank, method, buckets[b]);
      rank.wait_until(arrival);
      rank.code(waiting);
      arrival = next;
      waiting = all_reduce_coding(speeds, method, buckets[b]);
    } else {
      exchange(rank, method, buckets[b]);
      if (method.momentum) exchange(rank, momentum_of(method), buckets[b]);
    }
  }
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
  work.parameters = (work.parameters + parts - 1) / parts;
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
  Cluster limitless = cluster;
  limitless.inter = limitless.intra = {};
  Speeds at_once = speeds;
  at_once.message = at_once.byte = 0;
  Forecast forecast = run(cluster, work, speeds, method);
  forecast.exposed =
      std::max(0.0, forecast.seconds - run(limitless, work, at_once, method).seconds);
  return forecast;
}

Average predict(const Cluster& cluster, const Work& work, const Speeds& speeds, MethodStep method,
                const Rounds& rounds) {
  if (rounds.steps < 1)
    fail(Code::kInvalidArgument, "a run of {} steps: give at least 1, e.g. 100000", rounds.steps);
  Average all;
  const auto steps = static_cast<double>(rounds.steps);
  all.dense_share = static_cast<double>(rounds.dense) / steps;
  all.coded_share = static_cast<double>(rounds.coded) / steps;
  all.silent_share = static_cast<double>(rounds.steps - rounds.rounds()) / steps;
  const double momentum = static_cast<double>(rounds.momentum) / steps;
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
  const double state = cost.state + of_node / local + of_all * server / 4;
  return (weights_and_gradient + state) * static_cast<double>(work.parameters);
}

double break_even(const Cluster& cluster, FunctionRef<double(const Cluster&)> ours,
                  FunctionRef<double(const Cluster&)> theirs) {
  const auto pays = [&](double rate) {
    Cluster at = cluster;
    at.inter.bytes_per_second = rate;
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
