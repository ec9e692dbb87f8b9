#include <cstring>

#include "laconic/kernels/dense.h"
#include "laconic/kernels/random_sign.h"
#include "laconic/optim/rule.h"

namespace laconic {
namespace {

// m and b, decaying means of g and |g|, never exchanged; u = m/b. Each rank says a random sign with
// mean u, and r, the consensus of the signs, moves the weights.
class Birder final : public Rule {
 public:
  explicit Birder(const Bucket& bucket)
      : Rule(bucket),
        m_(bucket.x.size()),
        b_(bucket.x.size()),
        mean_(make_coded("random-sign")) {}

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

std::unique_ptr<Rule> make_birder(const Bucket& bucket) { return std::make_unique<Birder>(bucket); }

}  // namespace laconic
