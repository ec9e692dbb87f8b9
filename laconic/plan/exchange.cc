#include "laconic/plan/exchange.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <utility>

#include "laconic/collective/channel.h"
#include "laconic/collective/layout.h"
#include "laconic/core/error.h"
#include "laconic/wire/chunk.h"

namespace laconic::plan {

Rank::Rank(const Cluster& cluster, const Work& work, const Speeds& speeds, int most_slices,
           std::size_t lag)
    : cluster_(cluster),
      speeds_(speeds),
      forward_((1 - work.backward_share) * work.step_seconds),
      backward_(work.backward_share * work.step_seconds),
      shares_cores_(work.shares_cores),
      useful_slices_(std::min(most_slices, work.useful_slices)),
      lag_(lag),
      inter_(cluster.inter_of.empty() ? std::vector<Link>{cluster.inter} : cluster.inter_of) {
  const auto key = [](const Link& link) {
    return std::pair(link.bytes_per_second, link.latency_seconds);
  };
  std::ranges::sort(inter_, {}, key);
  const auto same = std::ranges::unique(inter_, {}, key);
  inter_.erase(same.begin(), same.end());
  inter_free_.resize(inter_.size());
}

void Rank::push(std::size_t phases, Phases slice) {
  phases_ = phases;
  slices_.push_back(std::move(slice));
  const std::size_t newest = slices_.size() - 1;
  for (std::size_t phase = 0; phase < phases && phase * lag_ <= newest; ++phase)
    if (const Phases& one = slices_[newest - phase * lag_]) one(phase);
}

void Rank::drain() {
  if (slices_.empty()) return;
  for (std::size_t i = 0; i < (phases_ - 1) * lag_; ++i) push(phases_, {});
  slices_.clear();
}

void Rank::code(double seconds) {
  sum_.coding += seconds;
  if (!shares_cores_) {
    now_ += seconds;
    return;
  }
  // Both go on at half speed until one of them is done.
  const double left = std::max(0.0, forward_ + backward_ + lost_ - now_);
  const double together = std::min(left, seconds);
  now_ += seconds + together;
  lost_ += together;
}

double Rank::send(double inside, double between, int peers) {
  code(speeds_.message * peers + speeds_.byte * 2 * (inside + between));
  double arrival = now_;
  const auto use = [&](double bytes, const Link& link, double& free) {
    if (bytes == 0) return 0.0;
    const double takes = bytes / link.bytes_per_second;
    free = std::max(now_, free) + takes;
    arrival = std::max(arrival, free + link.latency_seconds);
    return takes;
  };
  sum_.intra_busy += use(inside, cluster_.intra, intra_free_);
  double busy = 0;
  for (std::size_t i = 0; i < inter_.size(); ++i)
    busy = std::max(busy, use(between * cluster_.per_node, inter_[i], inter_free_[i]));
  sum_.inter_busy += busy;
  sum_.bytes_inside += inside;
  sum_.bytes_between += between;
  return arrival;
}

double Rank::transfer(double inside, double between, double seconds) {
  (between > 0 ? sum_.inter_busy : sum_.intra_busy) += seconds;
  sum_.bytes_inside += inside;
  sum_.bytes_between += between;
  transfer_end_ = std::max(now_, transfer_end_) + seconds;
  return transfer_end_;
}

Forecast Rank::forecast() const {
  Forecast all = sum_;
  all.seconds = now_;
  return all;
}

const MethodCost& cost_of(const Speeds& speeds, const MethodStep& method) {
  const auto found = speeds.methods.find(method_named(method.algorithm).name);
  if (found == speeds.methods.end())
    fail(Code::kInvalidArgument, "there are no speeds of {}: register it before", method.algorithm);
  return found->second;
}

MethodCost::Seconds update_of(const Speeds& speeds, const MethodStep& method) {
  if (!method.update) return {0, speeds.copy};
  const MethodCost& cost = cost_of(speeds, method);
  // Local steps: a rank's own update comes before the exchange, exact or not.
  if (method_named(method.algorithm).spacing)
    return {cost.local + cost.coded.before, cost.coded.after};
  // A codec of gradients leaves the update as it is.
  return method.step == Step::Kind::kDense || !method.codec.empty() ? cost.exact : cost.coded;
}

namespace {

// Seconds per element: `made` while encoding, or `fill` for the node, whose ranks' values `join`
// adds; `encode`; `add` takes in one node's message, `finish` encodes the mean; `decode` decodes
// and uses it.
struct Cost {
  double made, fill, join, encode, add, finish, decode;
};

const char* exact_codec(const MethodStep& method) { return method.bf16 ? "bf16" : "fp32"; }

std::string dense_codec(const MethodStep& method) {
  return method.dense_codec.empty() ? exact_codec(method) : method.dense_codec;
}

MeanConfig config_of(const MethodStep& method, std::size_t elements) {
  const std::string coded =
      method.codec.empty() ? method_named(method.algorithm).codec : method.codec;
  const bool codes = method.step == Step::Kind::kCoded;
  return {.codec = codes ? coded : dense_codec(method),
          .codec_down = codes ? method.codec_down : std::string(),
          .elements = elements,
          .scale_block = method.scale_block,
          .quant_block = method.quant_block,
          .top_k = method.top_k,
          .form = method.form};
}

Cost phases_of(const Speeds& s, const MethodStep& method, const MeanConfig& config,
               std::string_view runs) {
  const auto [before, after] = update_of(s, method);
  if (votes(config)) {
    const double cast = method.update ? before : s.narrow;
    return {.made = cast,
            .fill = cast,
            .join = s.count_signs,
            .encode = 0,
            .add = s.count_signs,
            .finish = 0,
            .decode = after + s.decode};
  }
  if (!is_exact(runs) && !draws(config))
    return {.made = before,
            .fill = before + s.copy,
            .join = s.add_values,
            .encode = s.encode,
            .add = s.add_signs,
            .finish = s.encode,
            .decode = after + s.decode};
  if (draws(config))
    return {.made = method.update ? before - s.draw : 0,
            .fill = before + s.narrow,
            .join = s.add_values,
            .encode = s.draw,
            .add = s.count_signs,
            .finish = config.form == RandomForm::kCount ? 0 : s.redraw,
            .decode = after + s.decode};
  const bool bf16 = runs == "bf16";
  return {.made = before,
          .fill = before + s.copy,
          .join = s.add_values,
          .encode = bf16 ? s.narrow : s.copy,
          .add = s.add_values,
          .finish = bf16 ? s.narrow : 0,
          .decode = after + (bf16 ? s.widen : 0)};
}

// The collectives of a mean as one rank sends them: flat, everyone is a peer; on nodes, those of
// the node or those with the same local rank.
class Collectives {
 public:
  Collectives(Rank& rank, bool hierarchical) : rank_(rank), hierarchical_(hierarchical) {}

  int nodes() const { return hierarchical_ ? rank_.cluster().nodes : rank_.cluster().ranks(); }
  int per_node() const { return hierarchical_ ? rank_.cluster().per_node : 1; }
  double inside(std::size_t block) const {
    const int peers = per_node() - 1;
    return rank_.send(static_cast<double>(block) * peers, 0, peers);
  }
  double between(std::size_t block) const {
    const int peers = nodes() - 1;
    const int near = hierarchical_ ? 0 : rank_.cluster().per_node - 1;
    const auto bytes = static_cast<double>(block);
    return rank_.send(bytes * near, bytes * (peers - near), peers);
  }

 private:
  Rank& rank_;
  bool hierarchical_;
};

std::size_t times(int count, std::size_t size) { return static_cast<std::size_t>(count) * size; }

// The exchange of a Pipeline: what it costs, and when messages arrive.
class PipelinePlan {
 public:
  PipelinePlan(Rank& rank, const MethodStep& method, const MeanConfig& config, bool hierarchical)
      : rank_(rank),
        collectives_(rank, hierarchical),
        config_(config),
        hierarchical_(hierarchical),
        nodes_(collectives_.nodes()),
        per_node_(collectives_.per_node()),
        layout_(layout_of(config, per_node_, nodes_, rank.useful_slices())),
        cost_(
            phases_of(rank.speeds(), method, config, codec_that_runs(config, per_node_, nodes_))) {
    for (auto& of_phase : arrival_) of_phase.resize(layout_.slices());
  }

  std::size_t slices() const { return layout_.slices(); }

  void run(std::size_t phase, std::size_t slice) {
    const std::size_t capacity = layout_.capacity(slice);
    const Sizes size = sizes_of(config_, per_node_, nodes_, capacity);
    const double whole = of_vector(slice);
    const double shard = std::min(whole, static_cast<double>(times(nodes_, capacity)));
    const double chunk = std::min(whole, static_cast<double>(capacity));
    if (phase > 0) rank_.wait_until(arrival_[phase - 1][slice]);
    if (hierarchical_ && phase == 0) {
      rank_.code(cost_.fill * whole);
      arrival_[0][slice] = collectives_.inside(times(nodes_, size.share));
      return;
    }
    switch (hierarchical_ ? phase : phase == 2 ? 4 : phase + 1) {
      case 1:
        rank_.code(hierarchical_ ? (cost_.join * per_node_ + cost_.encode) * shard
                                 : (cost_.made + cost_.encode) * whole);
        arrival_[phase][slice] = collectives_.between(size.up);
        break;
      case 2:
        rank_.code((cost_.add * nodes_ + cost_.finish) * chunk);
        arrival_[phase][slice] = collectives_.between(size.down);
        break;
      case 3:
        rank_.code(rank_.speeds().copy / 4 * static_cast<double>(times(nodes_, size.down)));
        arrival_[phase][slice] = collectives_.inside(times(nodes_, size.down));
        break;
      default: rank_.code(cost_.decode * whole);
    }
  }

 private:
  double of_vector(std::size_t slice) const {  // real elements of the whole slice
    const std::size_t whole = times(nodes_ * per_node_, layout_.capacity(slice));
    const std::size_t before = times(nodes_ * per_node_, layout_.capacity(0)) * slice;
    return static_cast<double>(
        std::min(whole, config_.elements - std::min(before, config_.elements)));
  }

  Rank& rank_;
  const Collectives collectives_;
  const MeanConfig config_;
  const bool hierarchical_;
  const int nodes_, per_node_;
  const Layout layout_;
  const Cost cost_;
  std::vector<double> arrival_[4];
};

void pipeline(Rank& rank, const MethodStep& method, const MeanConfig& config, bool hierarchical) {
  const auto plan = std::make_shared<PipelinePlan>(rank, method, config, hierarchical);
  for (std::size_t slice = 0; slice < plan->slices(); ++slice)
    rank.push(hierarchical ? 5 : 3, [plan, slice](std::size_t phase) { plan->run(phase, slice); });
}

void single_round(Rank& rank, const MethodStep& method, std::size_t elements, bool hierarchical) {
  rank.drain();
  const Collectives collectives(rank, hierarchical);
  const int ranks = rank.cluster().ranks();
  const Speeds& s = rank.speeds();
  const MethodCost::Seconds update = update_of(s, method);
  const Dealing dealing(elements, ranks, rank.useful_slices());
  std::vector<double> arrival[2];
  for (auto& of_phase : arrival) of_phase.resize(dealing.slices);
  in_turns(dealing.slices, hierarchical ? 3 : 2, [&](std::size_t phase, std::size_t slice) {
    const std::size_t runs = dealing.runs_of(slice);
    const std::size_t size = dealing.message_size(slice);
    const std::size_t first = slice * dealing.runs_per_slice * times(ranks, wire::kWord);
    const auto count =
        static_cast<double>(std::min(times(ranks, runs * wire::kWord), elements - first));
    if (phase > 0) rank.wait_until(arrival[phase - 1][slice]);
    if (phase == 0) {
      rank.code((method.update ? update.before : s.draw) * count);
      arrival[0][slice] = collectives.between(size);
    } else if (hierarchical && phase == 1) {
      rank.code(s.copy / 4 * static_cast<double>(times(collectives.nodes(), size)));
      arrival[1][slice] = collectives.inside(times(collectives.nodes(), size));
    } else {
      rank.code((update.after + s.decode) * count);
    }
  });
}

}  // namespace

// A ring, or a pair of trees where latency counts, whose bytes are a ring's; a node's card carries
// one edge of it.
double all_reduce(Rank& rank, const MethodStep& method, std::size_t elements) {
  const Cluster& cluster = rank.cluster();
  const int ranks = cluster.ranks();
  const auto bytes = static_cast<double>(make_codec(exact_codec(method))->message_size(elements));
  const double sent = 2 * bytes * (ranks - 1) / ranks;
  const double between = cluster.nodes > 1 ? sent / cluster.per_node : 0;
  const Link inter = cluster.slowest();  // each of its rounds waits for the slowest hop
  const double seconds = std::max(cluster.nodes > 1 ? sent / inter.bytes_per_second : 0,
                                  cluster.per_node > 1 ? sent / cluster.intra.bytes_per_second : 0);
  const auto hop = [&](const Link& link) { return link.latency_seconds + rank.speeds().message; };
  const auto levels = [](int members) {
    return static_cast<int>(std::bit_width(static_cast<unsigned>(members) - 1));
  };
  const double ring = 2 * (ranks - 1) * hop(cluster.nodes > 1 ? inter : cluster.intra);
  const double trees =
      2 * (levels(cluster.nodes) * hop(inter) + levels(cluster.per_node) * hop(cluster.intra));
  return rank.transfer(sent - between, between, seconds + std::min(ring, trees));
}

double all_reduce_coding(const Speeds& speeds, const MethodStep& method, std::size_t elements) {
  const double bytes = 2 * make_codec(exact_codec(method))->bits_per_element() / 8;
  return (speeds.add_values + 2 * speeds.byte * bytes + update_of(speeds, method).after) *
         static_cast<double>(elements);
}

void exchange(Rank& rank, const MethodStep& method, std::size_t elements) {
  const MeanConfig config = config_of(method, elements);
  const bool hierarchical = method.topology == Topology::kNodes && rank.cluster().per_node > 1;
  if (draws(config) && config.form == RandomForm::kSingleRound)
    return single_round(rank, method, elements, hierarchical);
  if (config.codec == "fp32" && rank.cluster().ranks() == 1)
    return rank.code(
        (update_of(rank.speeds(), method).before + update_of(rank.speeds(), method).after) *
        static_cast<double>(elements));
  pipeline(rank, method, config, hierarchical);
}

}  // namespace laconic::plan
