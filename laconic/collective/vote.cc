#include "laconic/collective/sign_coder.h"
#include "laconic/wire/chunk.h"

namespace laconic::inline collective {
namespace {

// Planes of what a node sends: the sign of one rank, or the count of several.
int planes_of_node(const Place& place) {
  return place.per_node > 1 ? kernels::planes_of(place.per_node) : 0;
}

// The vote of all ranks. Every rank votes with the sign of its values, in words that are not 0
// throughout; the owner decides by the majority (two rounds) or sends the count (count). On nodes
// the ranks share their votes, and each node sends the count of its own: the result is that of flat
// ranks, bit for bit.
class VoteCoder final : public SignCoder {
 public:
  VoteCoder(const MeanConfig& config, const Place& place, Device& device)
      : SignCoder(config, place, device, planes_of_node(place), place.per_node,
                  place.nodes * place.per_node) {}

  void begin(const Round& round) override {
    Coder::begin(round);
    ties_.odd = round.step % 2 != 0;
  }

  std::string describe() const override { return counts() ? "vote, counts" : "vote, majority"; }

  void share(const Range& range, const Source& source, std::span<std::byte> out) override {
    cast({&range, 1}, source, out.data(), out.data() + 8 * wire::words(range.capacity), 0);
  }
  void encode(std::span<const Range> ranges, const Source& source,
              std::span<std::byte> out) override {
    const auto to = open(ranges, out);
    cast(ranges, source, to.bits, to.extras, out.size() / ranges.size());
    seal(ranges, out);
  }
  void encode_node(const Range& range, std::span<const std::byte* const> shares,
                   std::span<std::byte> out) override {
    for (std::size_t r = 0; r < shares.size(); ++r) {
      bits_[r] = as_bits(shares[r]);
      extras_[r] = bits_[r] + 8 * wire::words(range.capacity);
    }
    const auto to = open(range, out, planes_up_);
    device_.count({.range = range,
                   .bits = {bits_.data(), shares.size()},
                   .extras = {extras_.data(), shares.size()},
                   .planes_out = planes_up_,
                   .out = as_bits(to.bits),
                   .out_extras = as_bits(to.extras)});
    seal(range, out, planes_up_);
  }

 private:
  void decide(CountSigns& job) const override { job.ties = &ties_; }
  void cast(std::span<const Range> ranges, const Source& source, std::byte* bits, std::byte* active,
            std::size_t stride) {
    device_.vote({.range = ranges.front(),
                  .source = source,
                  .ties = ties_,
                  .bits = as_bits(bits),
                  .active = as_bits(active)},
                 ranges, stride);
  }

  kernels::Ties ties_;
};

}  // namespace

std::unique_ptr<Coder> make_vote_coder(const MeanConfig& config, const Place& place,
                                       Device& device) {
  return std::make_unique<VoteCoder>(config, place, device);
}

}  // namespace laconic::inline collective
