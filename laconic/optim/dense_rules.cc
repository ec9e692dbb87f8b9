#include <cstring>

#include "laconic/kernels/dense.h"
#include "laconic/optim/rule.h"

namespace laconic {
namespace {

// A rule that works on the exact mean of the gradient, tile by tile. Without clipping the mean goes
// straight into the update; with it the gradient is replaced by its mean first.
template <class Base>
class DenseRule : public Base {
 public:
  explicit DenseRule(const Bucket& bucket) : Base(bucket), mean_(this->make(MeanKind::kDense)) {}

  void step(const Step& step) override {
    begin(step);
    this->mean_->exchange([this](Tile& tile) { return give(tile); },
                          [this](std::size_t at, std::span<const float> mean) { update(at, mean); },
                          {});
  }
  void average(const Step&) override { mean_->reduce(this->bucket_.g); }
  void apply(const Step& step) override {
    begin(step);
    this->for_each_tile([this](std::size_t at, std::size_t count) {
      update(at, this->bucket_.g.subspan(at, count));
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
  void begin(const Step& step) override { scalars_ = scalars(step); }
  void update(std::size_t at, std::span<const float> mean) override {
    adam_tile(scalars_, at, mean);
  }
  kernels::AdamStep scalars_{};
};

}  // namespace

std::unique_ptr<Rule> make_sgdm(const Bucket& bucket) { return std::make_unique<Sgdm>(bucket); }
std::unique_ptr<Rule> make_adamw(const Bucket& bucket) { return std::make_unique<AdamW>(bucket); }

}  // namespace laconic
