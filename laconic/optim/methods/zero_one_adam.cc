#include <algorithm>
#include <cmath>

#include "laconic/kernels/dense.h"
#include "laconic/optim/adam_rule.h"
#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/gradient_rule.h"
#include "laconic/optim/schedule.h"

namespace laconic::inline optim {
namespace {

using C = OptimizerConfig;

// Between two syncs v does not change, so a step is linear in the gradients: one accumulated
// vector (`pending`, learning rate times momentum) gives both how the model moved, over D, and the
// mean momentum, over G.
//   x_sync   the weights of the last sync, equal on all ranks; x moves on from there by local steps
//   pending  what this rank has moved and not sent yet; after a sync the worker residual
//   G, w     sum of rates and product of decays since the last sync
//   R_last   the last interval's length times its rate; pending must not outlive a falling rate
class ZeroOneAdam final : public DenseRoundsRule {
 public:
  explicit ZeroOneAdam(const Bucket& bucket)
      : DenseRoundsRule(bucket),
        x_sync_(*bucket.device, bucket.x.size()),
        pending_(*bucket.device, bucket.x.size()),
        coded_(make_coded("sign", pending_.span())),
        floors_(*bucket.device, *coded_, v_.span(), bucket.config->variance_floor,
                bucket.config->scale_block == 0, bucket.group.compress),
        residuals_(coded_->state()),
        left_(*bucket.device, (bucket.x.size() + 63) / 64) {
    means_.push_back(coded_.get());
  }

  void step(const Step& step) override {
    if (step.kind == Step::Kind::kNothing) return;
    if (step.variance) return variance_step(step);
    const bool rests = lr() == 0;  // this group alone: what it has pending is still sent
    if (rests && (gain() == 0 || step.kind == Step::Kind::kSilent)) return;
    const double rate = this->rate(step);
    double shrink = 1;
    if (gain() == 0) {  // the first since a sync
      const double reach = static_cast<double>(step.interval) * rate;
      if (reach_last() > 0) shrink = std::min(1.0, reach / reach_last());
      reach_last() = reach;
      for (const State& state : residuals_)
        kernels::scale(state.values.data(), state.values.size(), static_cast<float>(shrink));
    }
    gain() += rate;
    kept() *= decay();
    if (step.kind == Step::Kind::kCoded)
      sync(step, static_cast<float>(shrink), rests);
    else
      local(step, static_cast<float>(shrink));
  }

  // What is pending is sent at once. m stays as it is on each rank: over a cut interval it would be
  // wrecked.
  void synchronize(const Step& step) override {
    if (gain() == 0) return;
    exchange(*coded_, Values{pending_.data()}, sync_sink(step, nullptr), step, live());
    gain() = 0;
    kept() = 1;
  }

  void freeze() override {
    DenseRoundsRule::freeze();
    floors_.freeze();
    may_change_ = false;
  }
  void start() override { adopt(); }
  void adopt() override { copy_on<float>(*bucket_.device, bucket_.x, x_sync_.span()); }
  void restored(bool frozen) override {
    may_change_ = !frozen;
    floors_.update();
  }

  std::vector<State> state() override {
    auto all = residuals_;
    for (State& one : dense_state()) all.push_back(std::move(one));
    all.push_back({"m", m_.span(), Spread::kMean});
    all.push_back({"v", v_.span(), Spread::kSame});
    all.push_back({"pending", pending_.span(), Spread::kMean});
    all.push_back({"x_sync", x_sync_.span(), Spread::kSame});
    all.push_back({"scalars", {}, Spread::kScalar, 0, scalars_});
    return all;
  }
  std::span<const float> synced() const override { return x_sync_.span(); }
  double residual_ratio() const override { return coded_->residual_ratio(); }
  std::string describe() const override {
    const bool is_short = bucket_.config->schedule == IntervalSchedule::kShort;
    return described(*coded_) + (is_short ? ", short schedule" : "");
  }

  // m = mean of m; e, the mean of pending and the server residuals, goes into m at interval 1, else
  // into the weights.
  void redistribute(const Whole& whole, const Step& step) override {
    const auto &mean = whole.at("m"), &pending = whole.at("pending");
    const bool into_momentum = step.interval == 1 && reach_last() > 0;
    const auto per_reach = static_cast<float>(1 / (bucket_.config->beta1 * reach_last()));
    const Buffer<float> e = residuals_in(whole), m(m_.size());
    for (std::size_t k = 0; k < m.size(); ++k) {
      e[k] += pending[k];
      m[k] = mean[k] + (into_momentum ? e[k] * per_reach : 0);
    }
    store(m.span(), m_.span());
    floors_.update();
    if (into_momentum) {
      copy_on<float>(*bucket_.device, x_sync_.span(), bucket_.x);
    } else {
      store(e.span(), pending_.span());
      bucket_.device->run(Values{pending_.data()}, sync_sink(step, nullptr), e.size());
    }
    bucket_.device->clear(pending_.data(), pending_.span().size_bytes());
    for (const State& state : residuals_) clear(state);
    redistribute_dense(whole);
    gain() = 0;
    kept() = 1;
  }

 private:
  double& gain() { return scalars_[0]; }
  double& kept() { return scalars_[1]; }
  double& reach_last() { return scalars_[2]; }

  // Dead elements: by v while it may change, afterwards only where whole blocks are dead.
  std::span<const float> live() const {
    if (!bucket_.group.compress) return {};
    return may_change_ || floors_.any_dead_block() ? v_.span() : std::span<float>{};
  }

  // `m` is null where it stays.
  PendingSync sync_sink(const Step& step, float* m) {
    kernels::AdamStep s = scalars(step);
    s.decay = static_cast<float>(kept());
    return {.step = s,
            .inverse_gain = m ? static_cast<float>(1 / gain()) : 0,
            .floors = floors_.table(),
            .m = m,
            .v = v_.data(),
            .x_sync = x_sync_.data(),
            .x = bucket_.x.data()};
  }

  // Pieces of the mean that are not finite leave their m, v and x as they are.
  void variance_step(const Step& step) {
    const kernels::AdamStep s = scalars(step);
    const std::uint64_t bad_before = bad_blocks();
    dense_round(MomentsUpdate{s, m_.data(), v_.data(), left_.data(), bad()}, step);
    put_back_resting();
    floors_.update();
    bucket_.device->run(MomentsApply{s, m_.data(), v_.data(), x_sync_.data(), bucket_.x.data(),
                                     left_.data(), floors_.table()});
    bucket_.device->settle();
    if (bad_blocks() != bad_before) bucket_.device->clear(left_.data(), left_.size());
  }

  void sync(const Step& step, float shrink, bool rests) {
    begin_exchange(*coded_,
                   PendingMomentum{scalars(step), shrink, rests ? nullptr : bucket_.g.data(),
                                   m_.data(), pending_.data(), exact_bad()},
                   sync_sink(step, m_.data()), step, live());
    gain() = 0;
    kept() = 1;
  }

  void local(const Step& step, float shrink) {
    bucket_.device->run(LocalStep{scalars(step), shrink, bucket_.g.data(), m_.data(), v_.data(),
                                  pending_.data(), bucket_.x.data(), floors_.table(), bad().count});
  }

  Memory<float> x_sync_, pending_;
  double scalars_[3] = {0, 1, 0};
  std::unique_ptr<Mean> coded_;
  Floors floors_;
  std::vector<State> residuals_;  // of the server
  bool may_change_ = true;
  Memory<std::uint8_t> left_;  // by the last variance step: a byte per word of 64
};

// Variance steps by T_v, syncs by T_u, local steps between.
class ZeroOne final : public Schedule {
 public:
  explicit ZeroOne(const OptimizerConfig& config)
      : variance_(config.variance_kappa, config.variance_freeze_step),
        intervals_(config.variance_freeze_step, config.double_every, config.max_interval),
        total_(config.total_steps) {}

  Step plan(Counters c, double lr) const override {
    Step step = next(c, lr);
    step.interval = intervals_.at(step.t, lr, std::max(c.lr_peak(), lr));
    const bool due = variance_.contains(step.t) || c.variance_due() != 0;
    step.variance = due && c.open() == 0;
    step.freezes = step.t > variance_.freeze() && !due && c.frozen_at() == 0;
    if (step.variance) {
      step.kind = Step::Kind::kDense;
      ++step.variance_updates;
    } else if (lr == 0) {
      step.kind = Step::Kind::kNothing;
    } else {
      const bool sync =
          due || step.t == total_ ||
          static_cast<double>(step.t) - c.last_sync() >= static_cast<double>(step.interval);
      step.kind = sync ? Step::Kind::kCoded : Step::Kind::kSilent;
    }
    return step;
  }

  void done(Counters& c, const Step& step, FunctionRef<double()> variance_norm) const override {
    Schedule::done(c, step, variance_norm);
    const bool due = variance_.contains(step.t) || c.variance_due() != 0;
    c.variance_due() = due && !step.variance;
    c.open() = step.kind == Step::Kind::kSilent    ? 1
               : step.kind == Step::Kind::kNothing ? c.open()
                                                   : 0;
    if (step.freezes) c.frozen_at() = c.t();
  }

 private:
  VarianceSteps variance_;
  Intervals intervals_;
  std::int64_t total_;
};

constexpr Word kSchedules[] = {word(kDefaultText, IntervalSchedule::kByLength),
                               word("published", IntervalSchedule::kPublished),
                               word("short", IntervalSchedule::kShort)};
constexpr Word kByDefault[] = {word(kDefaultText, kDefault)};

std::vector<Option> all_options() {
  std::vector<Option> all = one_bit_options();
  all.push_back(option<&C::schedule>(
      "schedule", "published, short or default", word_only,
      "what is left open below: published: the paper's; short: fewer variance steps, over more of "
      "the run, a beta2 of at most 0.95, and syncs on every step for as long as that sends no more "
      "than the paper's; default: short where all is left open and total_steps is at most 10000, "
      "else published",
      kSchedules));
  all.push_back(option<&C::variance_freeze_step>(
                    "variance_freeze_step",
                    "a whole number >= 1, or unset with total_steps (a freeze step below 1 would "
                    "leave no variance to divide by)",
                    from_one,
                    "last step on which the variance may change, the end of learning-rate "
                    "warm-up; unset: 15 % of total_steps, with schedule = short up to 60 %",
                    kUnsetOnly)
                    .in("steps"));
  all.push_back(option<&C::variance_kappa>(
      "variance_kappa", "a whole number >= 1, or default", from_one,
      "variance steps before the gap between them doubles; default: 16, with schedule = short 4",
      kByDefault));
  all.push_back(option<&C::double_every>(
                    "double_every", "a whole number >= 1, auto, or unset with total_steps",
                    from_one,
                    "steps after which the interval between syncs doubles; auto: it follows the "
                    "learning rate; unset: a sixth of the steps after the freeze, with schedule = "
                    "short as late as the published volume allows",
                    kUnsetOrAuto)
                    .in("steps"));
  all.push_back(
      option<&C::max_interval>("max_interval", kFromOne, from_one, "longest interval between syncs")
          .in("steps"));
  return all;
}

// The published rules: steps that are left open follow from the length of the run.
constexpr std::int64_t kPublishedKappa = 16;
std::int64_t published_freeze(const C& config) { return percent_of_run(config, 15); }
std::int64_t published_doubling(const C& config, std::int64_t freeze) {
  return std::max<std::int64_t>(1, (config.total_steps - freeze) / 6);
}

void complete_published(C& config) {
  if (config.variance_kappa == kDefault) config.variance_kappa = kPublishedKappa;
  fill_from_length(config.variance_freeze_step, config, "variance_freeze_step",
                   published_freeze(config));
  fill_from_length(config.double_every, config, "double_every",
                   published_doubling(config, config.variance_freeze_step));
}

// The largest number from 1 to `most` that fits, where those below one that fits do so too; 1 if
// none does.
std::int64_t largest(std::int64_t most, FunctionRef<bool(std::int64_t)> fits) {
  std::int64_t least = 1;
  while (least < most) {
    const std::int64_t middle = most - (most - least) / 2;
    if (fits(middle))
      least = middle;
    else
      most = middle - 1;
  }
  return least;
}

// Fewer variance steps, up to a later one, and syncs on every step for as long as the published
// volume lasts. Some forty updates make v: with 0.999 the first ones, of large gradients, would
// weigh as much as the last.
void complete_short(C& config) {
  constexpr std::int64_t kKappa = 4;
  constexpr int kFreezePercent = 60;
  constexpr double kBeta2 = 0.95, kSignBits = 32.0 / 31;  // signs with their scales and headers
  const std::int64_t steps = config.total_steps, freeze = published_freeze(config);
  const auto exact = static_cast<std::int64_t>(
      bits_per_element({.codec = dense_round_codec(config), .quant_block = config.quant_block}) /
      kSignBits);
  const std::int64_t published =
      volume(steps, exact, {kPublishedKappa, freeze},
             {freeze, published_doubling(config, freeze), C{}.max_interval})
          .first;
  if (config.variance_kappa == kDefault) config.variance_kappa = kKappa;
  const auto fits = [&](std::int64_t at, std::int64_t doubling) {
    return volume(steps, exact, {config.variance_kappa, at}, {at, doubling, config.max_interval})
               .second <= published;
  };
  fill_from_length(config.variance_freeze_step, config, "variance_freeze_step",
                   largest(percent_of_run(config, kFreezePercent), [&](std::int64_t at) {
                     return fits(at, published_doubling(config, at));
                   }));
  const std::int64_t frozen = config.variance_freeze_step;
  fill_from_length(
      config.double_every, config, "double_every",
      largest(steps - frozen, [&](std::int64_t every) { return fits(frozen, every); }));
  config.beta2 = std::min(config.beta2, kBeta2);
}

bool is_short(const C& config) {
  constexpr std::int64_t kLongest = 10'000;
  if (config.schedule != IntervalSchedule::kByLength)
    return config.schedule == IntervalSchedule::kShort;
  return config.total_steps != kUnset && config.total_steps <= kLongest &&
         config.variance_kappa == kDefault && config.variance_freeze_step == kUnset &&
         config.double_every == kUnset;
}

void complete(C& config) {
  config.schedule = is_short(config) ? IntervalSchedule::kShort : IntervalSchedule::kPublished;
  if (config.schedule == IntervalSchedule::kShort)
    complete_short(config);
  else
    complete_published(config);
}

}  // namespace

Method zero_one_adam_method() {
  return {
      .name = "zero-one-adam",
      .title = "0/1 Adam",
      .summary = "Adam with one bit per parameter when ranks exchange, and local steps between",
      .paper =
          "Lu et al., Maximizing Communication Efficiency for Large-scale Training via 0/1 "
          "Adam, ICLR 2023",
      .exchanges =
          "gradient, exactly or with dense_codec, on few variance steps; displacement, at growing "
          "intervals",
      .codec = "sign",
      .python = "ZeroOneAdam",
      .options = all_options(),
      .aliases = {{"var_freeze_step", "variance_freeze_step"},
                  {"var_update_scaler", "variance_kappa"},
                  {"local_step_scaler", "double_every"},
                  {"local_step_clipper", "max_interval"}},
      .synced_weights = "x_sync",
      .shown = true,
      .dense_with = dense_round_codec,
      .cost = {.state = 16,
               .state_of_all = 4,
               .exact = {0, 1.23e-9},
               .coded = {0.70e-9, 1.20e-9},
               .local = 1.73e-9},
      .sweeps = {.exact = "adam",
                 .before = "encode-pending",
                 .after = "decode-pending",
                 .local = "local-pending"},
      .complete = complete,
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<ZeroOneAdam>(bucket);
      },
      .make_schedule = [](const C& config) -> std::unique_ptr<Schedule> {
        return std::make_unique<ZeroOne>(config);
      },
      .rounds =
          [](const C& config, std::int64_t steps) {
            return interval_rounds(
                steps, {config.variance_kappa, config.variance_freeze_step},
                {config.variance_freeze_step, config.double_every, config.max_interval});
          },
  };
}

}  // namespace laconic::inline optim
