#include "laconic/collective/sign_coder.h"

namespace laconic::inline collective {
namespace {

// The consensus of random signs in two rounds. Every node (a rank where there is no hierarchy) sends
// one random bit per element, +1 with probability (1 + u)/2; the owner counts the +1 among the nodes
// on which a word is active, and either draws again in proportion (two-round) or sends the count
// itself (count).
class RandomSignCoder final : public SignCoder {
 public:
  RandomSignCoder(const MeanConfig& config, const Place& place, Device& device)
      : SignCoder(config, place, device, 0, 1, place.nodes) {}

  void begin(const Round& round) override {
    Coder::begin(round);
    draw_ = draw_of(config_, round, place_.rank);
    redraw_ = draw_;
    redraw_.stream = Stream::kOwnerDraw;
  }

  std::string describe() const override {
    return counts() ? "random-sign mean, counts" : "random-sign mean, two rounds";
  }

  // Inside a node travel u in bf16 and a byte array of activity.
  void share(const Range& range, const Source& source, std::span<std::byte> out) override {
    device_.share(ShareSigns{.range = range,
                             .source = source,
                             .out = reinterpret_cast<std::uint16_t*>(out.data()),
                             .active = as_bits(out.data() + 2 * range.capacity)});
  }
  void encode(std::span<const Range> ranges, const Source& source,
              std::span<std::byte> out) override {
    const auto to = open(ranges, out);
    device_.draw({.range = ranges.front(),
                  .source = source,
                  .draw = draw_,
                  .bits = as_bits(to.bits),
                  .active = as_bits(to.extras)},
                 ranges, out.size() / ranges.size());
    seal(ranges, out);
  }
  // The node's u: its mean over the ranks on which the word is active.
  void encode_node(const Range& range, std::span<const std::byte* const> shares,
                   std::span<std::byte> out) override {
    encode({&range, 1}, NodeSigns{shares, range.begin, range.capacity}, out);
  }

 private:
  void decide(CountSigns& job) const override { job.redraw = &redraw_; }

  kernels::Draw draw_, redraw_;
};

}  // namespace

kernels::Draw draw_of(const MeanConfig& config, const Round& round, int rank) {
  return {.key = {config.seed, static_cast<std::uint32_t>(round.step)},
          .rank = static_cast<std::uint32_t>(rank),
          .bucket = config.bucket};
}

std::unique_ptr<Coder> make_random_sign_coder(const MeanConfig& config, const Place& place,
                                              Device& device) {
  return std::make_unique<RandomSignCoder>(config, place, device);
}

}  // namespace laconic::inline collective
