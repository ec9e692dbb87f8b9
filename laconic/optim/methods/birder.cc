#include <cstring>

#include "laconic/kernels/dense.h"
#include "laconic/kernels/random_sign.h"
#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/rule.h"
#include "laconic/optim/schedule.h"

namespace laconic {
namespace {

using C = OptimizerConfig;

// m and b, decaying means of g and |g|, never exchanged; u = m/b. Each rank sends a random sign with
// mean u, and r, the consensus of the signs, moves the weights.
class Birder final : public Rule {
 public:
  explicit Birder(const Bucket& bucket)
      : Rule(bucket), m_(bucket.x.size()), b_(bucket.x.size()), mean_(make_coded("random-sign")) {}

  void step(const Step& step) override {
    const double beta = bucket_.config->beta;
    const kernels::BirderMoments moments{static_cast<float>(beta), static_cast<float>(1 - beta)};
    const auto lr = static_cast<float>(this->lr()), decay = static_cast<float>(this->decay());
    say(
        *mean_, [&](Tile& tile) { return give(moments, tile); },
        [&](std::size_t at, std::span<const float> r) {
          kernels::birder_update(lr, decay, r.data(), bucket_.x.data() + at, r.size());
        },
        step);
  }

  std::vector<State> state() override {
    return {{"m", m_.span(), Spread::kMean}, {"b", b_.span(), Spread::kMean}};
  }
  std::string describe() const override { return mean_->describe(); }

  void redistribute(const Whole& whole, const Step&) override {
    std::memcpy(m_.data(), whole.at("m").data(), m_.span().size_bytes());
    std::memcpy(b_.data(), whole.at("b").data(), b_.span().size_bytes());
  }

 private:
  bool give(const kernels::BirderMoments& moments, Tile& tile) {
    tile.active = update(moments, tile, tile.begin, tile.count);
    tile.drawn = tile.draw != nullptr;
    tile.values = tile.random ? m_.data() + tile.begin : tile.values;
    tile.bounds = b_.data() + tile.begin;
    if (!tile.random) kernels::ratio(m_.data() + tile.begin, tile.bounds, tile.count, tile.values);
    return true;
  }

  // The activity of `count` elements from `begin` on. A bad block's m and b stay and its words are
  // not active; blocks are told apart where they are made of whole words of the tile.
  std::uint64_t update(const kernels::BirderMoments& moments, const Tile& tile, std::size_t begin,
                       std::size_t count) {
    static const kernels::Draw kNone;
    const float* g = bucket_.g.data() + begin;
    const std::size_t word = (begin - tile.begin) / 64;
    if (kernels::all_finite(g, count))
      return kernels::birder_moments(moments, g, m_.data() + begin, b_.data() + begin, count,
                                     tile.draw ? *tile.draw : kNone, begin,
                                     tile.draw ? tile.wanted >> word : 0,
                                     tile.draw ? tile.bits + 8 * word : nullptr)
             << word;
    const std::size_t block = bucket_.config->scale_block;
    if (block == 0 || count <= block || Mean::kTile % block != 0) {
      note_bad();
      if (tile.draw) std::memset(tile.bits + 8 * word, 0, (count + 63) / 64 * 8);
      return 0;
    }
    std::uint64_t active = 0;
    for_each_block(begin, count,
                   [&](std::size_t at, std::size_t n) { active |= update(moments, tile, at, n); });
    return active;
  }

  Buffer<float> m_, b_;
  std::unique_ptr<Mean> mean_;
};

}  // namespace

Method birder_method() {
  return {
      .name = "birder",
      .title = "Birder",
      .summary =
          "random signs from the first step on, without residuals or warm-up; about 2 to 3 "
          "times AdamW's learning rate",
      .paper =
          "Peng et al., Birder: Communication-Efficient 1-bit Adaptive Optimizer for "
          "Practical Distributed DNN Training, NeurIPS 2023",
      .exchanges = "random sign of the normalized momentum, every step",
      .codec = "random-sign",
      .python = "Birder",
      .options = {option<&C::beta>("beta", kBelowOne, below_one, "decay of both moments"),
                  option<&C::exchange>("exchange", "two-round, single-round, count or auto",
                                       word_only,
                                       "two-round: the paper's; single-round: half the bytes; "
                                       "count: less noise; auto: exact instead of two rounds where "
                                       "that is measured to be faster",
                                       kForms)},
      .rates = {{"resnet18", 2e-3}, {"resnet50", 2e-3}},
      .cost = {.state = 8, .exact = {0, 1.23e-9}, .coded = {0.96e-9, 0.40e-9}},
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<Birder>(bucket);
      },
      .make_schedule = [](const C&) { return every_step(Step::Kind::kCoded); },
      .rounds = [](const C&, std::int64_t steps) { return Rounds{.steps = steps, .coded = steps}; },
  };
}

}  // namespace laconic
