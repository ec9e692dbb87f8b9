#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "laconic/kernels/dense.h"
#include "laconic/optim/adam_rule.h"
#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/schedule.h"

namespace laconic {
namespace {

using C = OptimizerConfig;

// Between two syncs v does not change, so a step is linear in the gradients: one accumulated
// vector (`pending`, learning rate times momentum) gives both how the model moved, over D, and the
// mean momentum, over G.
//   x_sync   the weights of the last sync, equal on all ranks; x moves on from there by local steps
//   pending  what this rank has moved and not sent yet; after a sync the worker residual
//   G, w     sum of rates and product of decays since the last sync
//   R_last   the last interval's length times its rate; pending must not outlive a falling rate
class ZeroOneAdam final : public AdamRule {
 public:
  explicit ZeroOneAdam(const Bucket& bucket)
      : AdamRule(bucket),
        x_sync_(bucket.x.size()),
        pending_(bucket.x.size()),
        dense_(make_exact()),
        coded_(make_coded("sign", pending_.span())),
        floors_(*coded_, v_.span(), bucket.config->variance_floor, bucket.config->scale_block == 0,
                bucket.group.compress),
        residuals_(coded_->state()) {
    means_ = {coded_.get()};
  }

  void step(const Step& step) override {
    if (step.kind == Step::Kind::kNothing) return;
    if (step.variance) return variance_step(step);
    const bool rests = lr() == 0;  // this group alone: what it has pending is still said
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

  // What is pending is said at once. m stays as it is on each rank: over a cut interval it would be
  // wrecked.
  void synchronize(const Step& step) override {
    if (gain() == 0) return;
    say(
        *coded_,
        [this](Tile& tile) {
          std::memcpy(tile.values, pending_.data() + tile.begin, 4 * tile.count);
          return true;
        },
        [&, s = sync_scalars(step)](std::size_t at, std::span<const float> mean) {
          settle(s, nullptr, at, mean);
        },
        step, live());
    gain() = 0;
    kept() = 1;
  }

  void freeze() override {
    floors_.freeze();
    may_change_ = false;
  }
  void start() override { adopt(); }
  void adopt() override { std::memcpy(x_sync_.data(), bucket_.x.data(), bucket_.x.size_bytes()); }
  void restored(bool frozen) override {
    may_change_ = !frozen;
    floors_.update();
  }

  std::vector<State> state() override {
    auto all = residuals_;
    all.push_back({"m", m_.span(), Spread::kMean});
    all.push_back({"v", v_.span(), Spread::kSame});
    all.push_back({"pending", pending_.span(), Spread::kMean});
    all.push_back({"x_sync", x_sync_.span(), Spread::kSame});
    all.push_back({"scalars", {}, Spread::kScalar, 0, scalars_});
    return all;
  }
  std::span<const float> synced() const override { return x_sync_.span(); }
  double residual_ratio() const override { return coded_->residual_ratio(); }
  std::string describe() const override { return coded_->describe(); }

  // m = mean of m; e, the mean of pending and the server residuals, goes into m at interval 1, else
  // into the weights.
  void redistribute(const Whole& whole, const Step& step) override {
    const auto &mean = whole.at("m"), &pending = whole.at("pending");
    const bool into_momentum = step.interval == 1 && reach_last() > 0;
    kernels::AdamStep s = sync_scalars(step);
    const auto per_reach = static_cast<float>(1 / (bucket_.config->beta1 * reach_last()));
    const Buffer<float> e = residuals_in(whole);
    for (std::size_t k = 0; k < m_.size(); ++k) {
      e[k] += pending[k];
      m_[k] = mean[k] + (into_momentum ? e[k] * per_reach : 0);
    }
    floors_.update();
    if (into_momentum)
      std::memcpy(bucket_.x.data(), x_sync_.data(), bucket_.x.size_bytes());
    else
      for (std::size_t b = 0; b < floors_.blocks(); ++b)
        settle(s, nullptr, floors_.begin(b), e.span().subspan(floors_.begin(b), floors_.count(b)));
    std::memset(pending_.data(), 0, pending_.span().size_bytes());
    for (const State& state : residuals_) std::fill(state.values.begin(), state.values.end(), 0.0F);
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

  kernels::AdamStep sync_scalars(const Step& step) {
    kernels::AdamStep s = scalars(step);
    s.decay = static_cast<float>(kept());
    return s;
  }

  // `m` is null where it stays.
  void settle(kernels::AdamStep s, float* m, std::size_t begin, std::span<const float> mean) {
    const float inverse_gain = m ? static_cast<float>(1 / gain()) : 0;
    floors_.for_each_part(
        begin, mean, [&](std::size_t at, std::span<const float> part, float floor) {
          s.floor = floor;
          kernels::zero_one_sync(s, inverse_gain, part.data(), m ? m + (at - begin) : nullptr,
                                 v_.data() + at, x_sync_.data() + at, bucket_.x.data() + at,
                                 part.size());
        });
  }

  void variance_step(const Step& step) {
    kernels::AdamStep s = scalars(step);
    bad_.clear();
    dense_->exchange(
        [this](Tile& tile) {
          tile.values = bucket_.g.data() + tile.begin;
          return true;
        },
        [&](std::size_t at, std::span<const float> mean) {
          const auto update = [&](std::size_t from, std::span<const float> part) {
            kernels::Lanes unused;
            kernels::adam_moments(s, part.data(), m_.data() + from, v_.data() + from, part.size(),
                                  unused);
          };
          if (kernels::all_finite(mean.data(), mean.size())) return update(at, mean);
          for_each_block(at, mean.size(), [&](std::size_t from, std::size_t count) {
            const auto part = mean.subspan(from - at, count);
            kernels::all_finite(part.data(), count) ? update(from, part) : leave(from, count);
          });
        },
        {});
    put_back_resting();
    floors_.update();
    bucket_.pool->run(floors_.blocks(), [&](std::size_t block, int) {
      const std::size_t at = floors_.begin(block);
      if (left(at, floors_.count(block))) return;
      kernels::AdamStep here = s;
      here.floor = floors_.at(at);
      kernels::adam_apply(here, m_.data() + at, v_.data() + at, x_sync_.data() + at,
                          bucket_.x.data() + at, floors_.count(block));
    });
  }

  void sync(const Step& step, float shrink, bool rests) {
    const kernels::AdamStep s = scalars(step);
    say(
        *coded_,
        [&](Tile& tile) {
          const float* g = bucket_.g.data() + tile.begin;
          const bool good = !rests && !tile.fallback && kernels::all_finite(g, tile.count);
          kernels::zero_one_message(s, shrink, good ? g : nullptr, m_.data() + tile.begin,
                                    pending_.data() + tile.begin, tile.values, tile.count);
          return good || rests || tile.fallback || leave_out();
        },
        [&, settled = sync_scalars(step)](std::size_t at, std::span<const float> mean) {
          settle(settled, m_.data() + at, at, mean);
        },
        step, live());
    gain() = 0;
    kept() = 1;
  }

  void local(const Step& step, float shrink) {
    const kernels::AdamStep s = scalars(step);
    bucket_.pool->run(floors_.blocks(), [&](std::size_t block, int) {
      const std::size_t at = floors_.begin(block), count = floors_.count(block);
      const float* g = bucket_.g.data() + at;
      if (!kernels::all_finite(g, count)) {
        g = nullptr;
        note_bad();
      }
      kernels::AdamStep here = s;
      here.floor = floors_.at(at);
      kernels::zero_one_local(here, shrink, g, m_.data() + at, v_.data() + at, pending_.data() + at,
                              bucket_.x.data() + at, count);
    });
  }

  // Pieces of the mean that were not finite: their m, v and x are left as they are.
  void leave(std::size_t begin, std::size_t count) {
    note_bad();
    std::lock_guard lock(mutex_);
    bad_.push_back({begin, count});
  }
  bool left(std::size_t begin, std::size_t count) const {
    return std::any_of(bad_.begin(), bad_.end(), [&](const auto& piece) {
      return piece.first < begin + count && begin < piece.first + piece.second;
    });
  }

  Buffer<float> x_sync_, pending_;
  double scalars_[3] = {0, 1, 0};
  std::unique_ptr<Mean> dense_, coded_;
  Floors floors_;
  std::vector<State> residuals_;  // of the server
  bool may_change_ = true;
  std::mutex mutex_;
  std::vector<std::pair<std::size_t, std::size_t>> bad_;
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

std::vector<Option> all_options() {
  std::vector<Option> all = one_bit_options();
  all.push_back(option<&C::variance_freeze_step>(
                    "variance_freeze_step",
                    "a whole number >= 1, or unset with total_steps (a freeze step below 1 would "
                    "leave no variance to divide by)",
                    from_one,
                    "last step on which the variance may change, the end of learning-rate "
                    "warm-up; unset: 15 % of total_steps",
                    kUnsetOnly)
                    .in("steps"));
  all.push_back(option<&C::variance_kappa>("variance_kappa", kFromOne, from_one,
                                           "variance steps before the gap between them doubles"));
  all.push_back(option<&C::double_every>(
                    "double_every", "a whole number >= 1, auto, or unset with total_steps",
                    from_one,
                    "steps after which the interval between syncs doubles; auto: it follows the "
                    "learning rate; unset: a sixth of the steps after the freeze",
                    kUnsetOrAuto)
                    .in("steps"));
  all.push_back(
      option<&C::max_interval>("max_interval", kFromOne, from_one, "longest interval between syncs")
          .in("steps"));
  return all;
}

void complete(C& config) {
  fill_from_length(config.variance_freeze_step, config, "variance_freeze_step",
                   percent_of_run(config, 15));
  fill_from_length(config.double_every, config, "double_every",
                   (config.total_steps - config.variance_freeze_step) / 6);
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
      .exchanges = "gradient, exactly, on few variance steps; displacement, at growing intervals",
      .codec = "sign",
      .python = "ZeroOneAdam",
      .options = all_options(),
      .aliases = {{"var_freeze_step", "variance_freeze_step"},
                  {"var_update_scaler", "variance_kappa"},
                  {"local_step_scaler", "double_every"},
                  {"local_step_clipper", "max_interval"}},
      .cost = {.state = 16,
               .state_of_all = 4,
               .exact = {0, 1.23e-9},
               .coded = {0.70e-9, 1.20e-9},
               .local = 1.73e-9},
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

}  // namespace laconic
