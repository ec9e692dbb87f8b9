#include <algorithm>
#include <cstring>

#include "laconic/kernels/dense.h"
#include "laconic/optim/rule.h"

namespace laconic {
namespace {

// A rule that works on the exact mean of the gradient, tile by tile. The mean goes straight into the
// update, unless a decision over all of it comes first: with clipping it replaces the gradient, and
// where it is deferred it is kept beside the gradient.
template <class Base>
class DenseRule : public Base {
 public:
  explicit DenseRule(const Bucket& bucket) : Base(bucket), mean_(this->make_exact()) {}

  void step(const Step& step) override {
    begin(step);
    this->mean_->exchange([this](Tile& tile) { return give(tile); },
                          [this](std::size_t at, std::span<const float> mean) { update(at, mean); },
                          {});
  }
  void average(const Step&) override {
    if (!this->bucket_.deferred) return mean_->reduce(this->bucket_.g);
    if (held_.empty()) held_ = Buffer<float>(this->bucket_.x.size());
    mean_->exchange([this](Tile& tile) { return give(tile); },
                    [this](std::size_t at, std::span<const float> mean) {
                      std::memcpy(held_.data() + at, mean.data(), mean.size_bytes());
                    },
                    {});
  }
  void apply(const Step& step) override {
    begin(step);
    const std::span<const float> mean = this->bucket_.deferred ? held_.span() : this->bucket_.g;
    this->for_each_tile([&](std::size_t at, std::size_t count) {
      update(at, mean.subspan(at, count));
    });
  }
  std::string describe() const override { return mean_->describe(); }

 protected:
  virtual void begin(const Step& step) = 0;
  virtual void update(std::size_t at, std::span<const float> mean) = 0;

 private:
  bool give(Tile& tile) {
    tile.values = this->bucket_.g.data() + tile.begin;
    return true;
  }
  std::unique_ptr<Mean> mean_;
  Buffer<float> held_;
};

class Sgdm final : public DenseRule<Rule> {
 public:
  explicit Sgdm(const Bucket& bucket) : DenseRule(bucket), m_(bucket.x.size()) {}
  std::vector<State> state() override { return {{"m", m_.span(), Spread::kSame}}; }

 private:
  void begin(const Step&) override {
    scalars_ = {static_cast<float>(bucket_.config->momentum), static_cast<float>(lr()),
                static_cast<float>(decay())};
  }
  void update(std::size_t at, std::span<const float> mean) override {
    for_each_finite(at, mean, [&](std::size_t from, std::span<const float> part) {
      kernels::sgdm(scalars_, part.data(), m_.data() + from, bucket_.x.data() + from, part.size());
    });
  }
  Buffer<float> m_;
  kernels::SgdmStep scalars_{};
};

class AdamW final : public DenseRule<AdamRule> {
 public:
  using DenseRule::DenseRule;
  std::vector<State> state() override {
    return {{"m", m_.span(), Spread::kSame}, {"v", v_.span(), Spread::kSame}};
  }

 private:
  // A range that rested has taken fewer steps, so its bias corrections lag behind.
  void begin(const Step& step) override {
    lags_ = bucket_.rest ? bucket_.rest->lags(bucket_.index) : std::span<const Lag>{};
    scalars_.assign(1, scalars(step));
    if (lags_.empty()) return;
    scalars_.clear();
    for (const Lag& lag : lags_) {
      Step own = step;
      own.t -= lag.steps;
      own.variance_updates -= lag.steps;
      scalars_.push_back(scalars(own));
    }
  }
  void update(std::size_t at, std::span<const float> mean) override {
    if (lags_.empty()) return adam_tile(scalars_.front(), at, mean);
    for_each_finite(at, mean, [&](std::size_t begin, std::span<const float> part) {
      for (std::size_t i = 0; i < lags_.size(); ++i) {
        const std::size_t from = std::max(begin, lags_[i].begin);
        const std::size_t to = std::min(begin + part.size(), lags_[i].begin + lags_[i].count);
        if (from < to)
          kernels::adamw(scalars_[i], part.data() + (from - begin), m_.data() + from,
                         v_.data() + from, bucket_.x.data() + from, to - from);
      }
    });
  }
  std::span<const Lag> lags_;
  std::vector<kernels::AdamStep> scalars_;
};

}  // namespace

std::unique_ptr<Rule> make_sgdm(const Bucket& bucket) { return std::make_unique<Sgdm>(bucket); }
std::unique_ptr<Rule> make_adamw(const Bucket& bucket) { return std::make_unique<AdamW>(bucket); }

}  // namespace laconic
