#include <cstring>

#include "laconic/collective/coder.h"
#include "laconic/collective/layout.h"
#include "laconic/core/error.h"
#include "laconic/wire/chunk.h"

namespace laconic::inline collective {
namespace {

const std::uint8_t* as_bits(const std::byte* p) { return reinterpret_cast<const std::uint8_t*>(p); }
std::uint8_t* as_bits(std::byte* p) { return reinterpret_cast<std::uint8_t*>(p); }

// The consensus of random signs in two rounds. Every node (a rank where there is no hierarchy) sends
// one random bit per element, +1 with probability (1 + u)/2; the owner counts the +1 among the nodes
// on which a word is active, and either draws again in proportion (two-round) or sends the count
// itself (count).
class RandomSignCoder final : public Coder {
 public:
  RandomSignCoder(const MeanConfig& config, const Place& place, Device& device)
      : Coder(device),
        config_(config),
        place_(place),
        planes_(kernels::planes_of(place.nodes)),
        bits_(static_cast<std::size_t>(place.nodes)),
        active_(bits_.size()) {
    device.reserve(nullptr, bits_.size());
  }

  void begin(const Round& round) override {
    Coder::begin(round);
    draw_ = draw_of(config_, round, place_.rank);
    redraw_ = draw_;
    redraw_.stream = Stream::kOwnerDraw;
  }

  std::string describe() const override {
    return counts() ? "random-sign mean, counts" : "random-sign mean, two rounds";
  }

  Sizes sizes(std::size_t capacity) const override {
    return random_sign_sizes(config_.form, place_.nodes, capacity);
  }
  // Inside a node travel u in bf16 and a byte array of activity.
  void share(const Range& range, const Source& source, std::span<std::byte> out) override {
    device_.share(ShareSigns{.range = range,
                             .source = source,
                             .out = reinterpret_cast<std::uint16_t*>(out.data()),
                             .active = as_bits(out.data() + 2 * range.capacity)});
  }
  // The node's u: its mean over the ranks on which the word is active.
  Source joined(const Range& range, std::span<const std::byte* const> shares) const override {
    return NodeSigns{shares, range.begin, range.capacity};
  }
  void encode(const Range& range, const Source& source, std::span<std::byte> out) override;
  void combine(const Range& range, std::span<const std::byte* const> messages,
               std::span<std::byte> out) override;
  void decode(const Range& range, std::span<const std::byte> message, int owner,
              const Sink& sink) override;

 private:
  bool counts() const { return config_.form == RandomForm::kCount; }
  wire::Form form_down() const { return counts() ? wire::Form::kCounts : wire::Form::kRandomSigns; }

  MeanConfig config_;
  Place place_;
  int planes_;
  std::vector<const std::uint8_t*> bits_, active_;  // of the messages of a range
  kernels::Draw draw_, redraw_;
};

void RandomSignCoder::encode(const Range& range, const Source& source, std::span<std::byte> out) {
  const auto to = wire::parts(out, range.capacity);
  std::memset(to.bits, 0, out.size() - wire::kHeaderSize);
  device_.draw({.range = range,
                .source = source,
                .draw = draw_,
                .bits = as_bits(to.bits),
                .active = as_bits(to.extras)});
  wire::seal(out, header(wire::Form::kRandomSigns, range));
}

void RandomSignCoder::combine(const Range& range, std::span<const std::byte* const> messages,
                              std::span<std::byte> out) {
  const std::size_t size = sizes(range.capacity).up;
  for (std::size_t r = 0; r < messages.size(); ++r) {
    wire::check({messages[r], size}, size, header(wire::Form::kRandomSigns, range),
                static_cast<int>(r));
    const auto in = wire::parts(std::span(messages[r], size), range.capacity);
    bits_[r] = as_bits(in.bits);
    active_[r] = as_bits(in.extras);
  }
  const auto to = wire::parts(out, range.capacity, counts() ? planes_ : 1);
  std::memset(to.bits, 0, out.size() - wire::kHeaderSize);
  device_.count({.range = range,
                 .bits = bits_,
                 .active = active_,
                 .redraw = counts() ? nullptr : &redraw_,
                 .out = as_bits(to.bits),
                 .extras = as_bits(to.extras)});
  wire::seal(out, header(form_down(), range));
}

void RandomSignCoder::decode(const Range& range, std::span<const std::byte> message, int owner,
                             const Sink& sink) {
  wire::check(message, sizes(range.capacity).down, header(form_down(), range), owner);
  const auto in = wire::parts(message, range.capacity, counts() ? planes_ : 1);
  device_.read({.range = range,
                .bits = as_bits(in.bits),
                .extras = as_bits(in.extras),
                .planes = counts() ? planes_ : 0,
                .sink = sink});
}

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
