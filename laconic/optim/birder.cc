#include <cstring>

#include "laconic/kernels/dense.h"
#include "laconic/kernels/random_sign.h"
#include "laconic/optim/rule.h"

namespace laconic {
namespace {

// m and b, decaying means of g and |g|, never exchanged; u = m/b. Each rank says a random sign with mean u, and r, the
// consensus of the signs, moves the weights.
class Birder final : public Rule {
 public:
  explicit Birder(const Bucket& bucket)
      : Rule(bucket),
        m_(bucket.x.size()),
        b_(bucket.x.size()),
        mean_(make(bucket.group.compress ? MeanKind::kRandomSign : MeanKind::kDense)) {}

  void step(const Step& step) override {
    const double beta = bucket_.config->beta;
    const kernels::BirderMoments moments{static_cast<float>(beta), static_cast<float>(1 - beta)};
    const auto lr = static_cast<float>(this->lr(step)), decay = static_cast<float>(this->decay(step));
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
  // A bad block's m and b stay and its words are not active.
  bool give(const kernels::BirderMoments& moments, Tile& tile) {
    const float* g = bucket_.g.data() + tile.begin;
    float *m = m_.data() + tile.begin, *b = b_.data() + tile.begin;
    const bool good = kernels::all_finite(g, tile.count);
    if (!good) note_bad();
    const bool draws = good && tile.draw != nullptr;
    const std::uint64_t wanted = draws ? tile.wanted : 0;
    static const kernels::Draw kNone;
    tile.active = good ? kernels::birder_moments(moments, g, m, b, tile.count,
                                                 draws ? *tile.draw : kNone, tile.begin, wanted,
                                                 tile.bits)
                       : 0;
    tile.drawn = draws;
    if (tile.random) {
      tile.values = m;
      tile.bounds = b;
    } else {
      kernels::ratio(m, b, tile.count, tile.values);
      if (!good) std::memset(tile.values, 0, 4 * tile.count);
    }
    return true;
  }

  Buffer<float> m_, b_;
  std::unique_ptr<Mean> mean_;
};

}  // namespace

std::unique_ptr<Rule> make_birder(const Bucket& bucket) { return std::make_unique<Birder>(bucket); }

}  // namespace laconic
