#pragma once

#include <cstring>

#include "laconic/kernels/dense.h"
#include "laconic/optim/rule.h"

namespace laconic {

// A rule that works on the exact mean of the gradient, tile by tile. The mean goes straight into the
// update, unless a decision over all of it comes first: with clipping it replaces the gradient, and
// where it is deferred it is kept beside the gradient.
template <class Base>
class ExactRule : public Base {
 public:
  explicit ExactRule(const Bucket& bucket) : Base(bucket), mean_(this->make_exact()) {}

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
    this->for_each_tile(
        [&](std::size_t at, std::size_t count) { update(at, mean.subspan(at, count)); });
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

}  // namespace laconic
