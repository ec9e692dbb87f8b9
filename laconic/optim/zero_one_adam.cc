#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "laconic/core/error.h"
#include "laconic/kernels/dense.h"
#include "laconic/optim/rule.h"

namespace laconic {
namespace {

// Between two synchronisations v does not change, so a step is linear in the gradients: what was
// moved but not yet said
// (`pending`, learning rate times momentum) tells both how the model moved, over D, and what the
// mean momentum is, over G.
//   x_sync   the weights of the last sync, equal on all ranks; x moves on from there by local steps
//   G, w     sum of rates and product of decays since the last sync
//   R_last   reach of the last interval: its length times its rate; pending must not outlive a
//   falling rate
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
  void start() override { std::memcpy(x_sync_.data(), bucket_.x.data(), bucket_.x.size_bytes()); }
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

}  // namespace

std::unique_ptr<Rule> make_zero_one_adam(const Bucket& bucket) {
  return std::make_unique<ZeroOneAdam>(bucket);
}

}  // namespace laconic
