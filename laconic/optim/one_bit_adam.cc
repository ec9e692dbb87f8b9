#include <algorithm>

#include "laconic/core/error.h"
#include "laconic/kernels/dense.h"
#include "laconic/optim/rule.h"

namespace laconic {
namespace {

// m, v the moments, ḡ the exact mean of the gradients. Until the freeze an Adam step on ḡ; from
// then on v stays, each rank adds its own gradient to m, and the one-bit mean of these momenta is
// the next m.
class OneBitAdam final : public AdamRule {
 public:
  explicit OneBitAdam(const Bucket& bucket)
      : AdamRule(bucket),
        dense_(make_exact()),
        coded_(make_coded("sign")),
        floors_(*coded_, v_.span(), bucket.config->variance_floor, bucket.config->scale_block == 0,
                bucket.group.compress) {
    means_ = {coded_.get()};
  }

  void freeze() override { floors_.freeze(); }
  void step(const Step& step) override { step.variance ? dense(step) : coded(step); }

  std::vector<State> state() override {
    auto all = coded_->state();
    all.push_back({"m", m_.span(), Spread::kSame});
    all.push_back({"v", v_.span(), Spread::kSame});
    return all;
  }
  void restored(bool) override { floors_.update(); }
  double residual_ratio() const override { return coded_->residual_ratio(); }
  std::string describe() const override { return coded_->describe(); }

  void redistribute(const Whole& whole, const Step&) override {
    // m += e/beta1, e the mean worker residual and the server residuals.
    const Buffer<float> e = residuals_in(whole);
    for (std::size_t k = 0; k < m_.size(); ++k)
      m_[k] += e[k] / static_cast<float>(bucket_.config->beta1);
    for (const State& state : coded_->state())
      std::fill(state.values.begin(), state.values.end(), 0.0F);
  }

 private:
  void dense(const Step& step) {
    const kernels::AdamStep s = scalars(step);
    dense_->exchange(
        [this](Tile& tile) {
          tile.values = bucket_.g.data() + tile.begin;
          return true;
        },
        [&](std::size_t at, std::span<const float> mean) { adam_tile(s, at, mean); }, {});
  }

  void coded(const Step& step) {
    const kernels::AdamStep s = scalars(step);
    const auto live = floors_.any_dead_block() ? v_.span() : std::span<float>{};
    say(
        *coded_,
        [&](Tile& tile) {
          const float* g = bucket_.g.data() + tile.begin;
          const bool good = !tile.fallback && kernels::all_finite(g, tile.count);
          kernels::momentum(s, good ? g : nullptr, m_.data() + tile.begin, tile.values, tile.count);
          return good || tile.fallback || leave_out();
        },
        [&](std::size_t begin, std::span<const float> mean) {
          floors_.for_each_part(
              begin, mean, [&](std::size_t at, std::span<const float> part, float floor) {
                kernels::AdamStep here = s;
                here.floor = floor;
                kernels::one_bit_apply(here, part.data(), m_.data() + at, v_.data() + at,
                                       bucket_.x.data() + at, part.size());
              });
        },
        step, live);
  }

  std::unique_ptr<Mean> dense_, coded_;
  Floors floors_;
};

}  // namespace

std::unique_ptr<Rule> make_one_bit_adam(const Bucket& bucket) {
  return std::make_unique<OneBitAdam>(bucket);
}

}  // namespace laconic
