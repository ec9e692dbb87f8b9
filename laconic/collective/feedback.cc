#include <algorithm>
#include <cmath>

#include "laconic/collective/coder.h"
#include "laconic/collective/layout.h"
#include "laconic/core/error.h"
#include "laconic/device/memory.h"

namespace laconic::inline collective {
namespace {

// What one side keeps of what its codec leaves out: keep*e + share*r.
struct Policy {
  bool keeps;
  float share, keep;
};

Policy policy_of(const Codec& codec, Feedback feedback, const MeanConfig& config) {
  const bool keeps = !codec.exact() && feedback != Feedback::kNone;
  if (feedback == Feedback::kEma)
    return {keeps, static_cast<float>(1 - config.feedback_beta),
            static_cast<float>(config.feedback_beta)};
  return {keeps, feedback == Feedback::kDecay ? static_cast<float>(config.feedback_decay) : 1.0F,
          0};
}

// A decayed residual takes the place of a momentum over the workers' values. What another codec
// leaves out of the mean is an error and no more.
Feedback server_feedback(const Codecs& codecs, Feedback feedback) {
  const bool decays = feedback == Feedback::kDecay && codecs.up->name() != codecs.down->name();
  return decays ? Feedback::kFull : feedback;
}

// Runs any codec, or one up to the owners and one back: what is the same for all of them. It owns
// the residuals (workers keep theirs on what they encode, the owner keeps one on its chunk), and
// decides what is added, masked, divided and checked. Exact codecs leave nothing over; they share
// the paths and skip the rest.
class FeedbackCoder final : public Coder {
 public:
  FeedbackCoder(const MeanConfig& config, const Place& place, Device& device);

  Sizes sizes(std::size_t capacity) const override { return sizes_of(codecs_, capacity); }
  void share(const Range& range, const Source& source, std::span<std::byte> out) override;
  void encode(std::span<const Range> ranges, const Source& source,
              std::span<std::byte> out) override;
  void encode_all(std::span<const Range> ranges, const Source& source, std::span<std::byte> out);
  void encode_node(const Range& range, std::span<const std::byte* const> shares,
                   std::span<std::byte> out) override {
    encode({&range, 1}, NodeSum{shares, join_factor_, range.begin}, out);
  }
  void combine(const Range& range, std::span<const std::byte* const> messages,
               std::span<std::byte> out) override;
  void decode(std::span<const Range> ranges, std::span<const std::byte* const> messages,
              std::span<const int> owners, const Sink& sink) override;

  void begin(const Round& round) override {
    Coder::begin(round);
    ++exchanges_;
    resets_now_ = resets() && reset_ > 0 && std::fmod(exchanges_, reset_) == 0;
    round_ = round;
    sent_ = residual_ = 0;
  }
  std::vector<State> state() override;
  std::uint64_t bad_blocks() const noexcept override { return bad_; }
  double residual_ratio() const noexcept override {
    return sent_ > 0 ? std::sqrt(residual_ / sent_) : 0;
  }
  std::string describe() const override {
    if (up().name() == down().name()) return up().describe();
    return fmt::format("{}, {} on the way back", up().describe(), down().name());
  }

 private:
  const Codec& up() const { return *codecs_.up; }
  const Codec& down() const { return *codecs_.down; }
  // Elements that are encoded together; 0: a whole range.
  std::size_t block_of(const Codec& codec) const {
    return codec.exact() ? exact_block_ : codec.block();
  }
  bool resets() const { return falls_back_ && feedback_ == Feedback::kEma; }
  // Old errors leave an average slowly, so it begins anew from time to time.
  Residual kept_at(const Policy& policy, float* e, const float* added, float gain) const {
    if (resets_now_) return {e, added, gain, 0, 0};
    return {e, added, gain, policy.share, policy.keep};
  }
  Residual worker_residual(const Range& range) const;
  Residual server_residual(const Range& range) const;
  EncodeJob job(const Codec& codec, const Range& range, const Residual& residual,
                std::span<std::byte> out) const;
  const float* values_to_add(const Source& source) const;
  // Before a message's blocks are written, and after.
  static void open(const Codec& codec, const Range& range, std::span<std::byte> out);
  void seal(const Codec& codec, const Range& range, std::span<std::byte> out) const;
  void check(const Codec& codec, std::span<const std::byte> message, const Range& range,
             int from) const;

  Codecs codecs_;
  bool exact_, falls_back_;  // on the way up
  Feedback feedback_;
  double reset_, exchanges_ = 0;  // so far; whole numbers
  bool resets_now_ = false;       // the residual is 0 after this exchange
  Policy worker_policy_, server_policy_;
  std::size_t exact_block_;     // elements of exact codecs that are encoded together
  std::size_t fallback_block_;  // elements that fall back together inside a node
  float join_factor_, factor_;
  Place place_;
  std::span<float> pending_;
  Memory<float> worker_;
  Buffer<float> server_, zeros_;  // owners combine on the host
  const float* own_ = nullptr;    // values that the owner adds where they are, not to be copied
  std::vector<const std::byte*> added_;
  Round round_;
  double sent_ = 0, residual_ = 0;  // squared norms of a sample
  std::uint64_t bad_ = 0;
};

// Exact sums are divided once, by the number of ranks; lossy codecs encode the mean of a node.
// Blocks are bad as a whole where a lossy codec was asked for, even if an exact one runs.
FeedbackCoder::FeedbackCoder(const MeanConfig& config, const Place& place, Device& device)
    : Coder(device),
      codecs_(codecs_that_run(config, place.per_node, place.nodes)),
      exact_(up().exact()),
      feedback_(config.feedback),
      reset_(static_cast<double>(config.feedback_reset)),
      worker_policy_(policy_of(up(), feedback_, config)),
      server_policy_(policy_of(down(), server_feedback(codecs_, feedback_), config)),
      exact_block_(tile_of(config.scale_block)),
      join_factor_(exact_ ? 1.0F : static_cast<float>(1.0 / place.per_node)),
      factor_(static_cast<float>(
          1.0 / (static_cast<double>(place.nodes) * (exact_ ? place.per_node : 1)))),
      place_(place),
      pending_(config.pending),
      worker_(device, worker_policy_.keeps && config.pending.empty() ? place.shard_count : 0),
      server_(server_policy_.keeps ? place.chunk_count : 0),
      zeros_(!exact_ && !server_policy_.keeps ? kTile : 0) {
  const auto asked = make_codec(config.codec, options_of(config));
  falls_back_ = !asked->exact();
  added_.reserve(static_cast<std::size_t>(place.nodes));
  fallback_block_ = falls_back_ ? asked->block() : kTile;
  device.reserve(&up(), static_cast<std::size_t>(place.nodes));
}

// Whole fp32 values. The caller's residual is part of them.
void FeedbackCoder::share(const Range& range, const Source& source, std::span<std::byte> out) {
  device_.share(ShareValues{.range = range,
                            .source = source,
                            .block = fallback_block_,
                            .falls_back = falls_back_,
                            .spent = pending_.data(),
                            .out = reinterpret_cast<float*>(out.data())},
                bad_);
}

// fp32 values that lie in this process's memory as they are sent; null: others.
const float* FeedbackCoder::values_to_add(const Source& source) const {
  const auto* values = std::get_if<Values>(&source);
  const bool as_they_are = up().name() == "fp32" && pending_.empty();
  const bool here = place_.per_node == 1 && device_.is_host();
  return values && as_they_are && here ? values->values : nullptr;
}

void FeedbackCoder::encode(std::span<const Range> ranges, const Source& source,
                           std::span<std::byte> out) {
  own_ = values_to_add(source);
  if (!own_) return encode_all(ranges, source, out);
  const auto own = static_cast<std::size_t>(place_.rank);
  const std::size_t size = out.size() / ranges.size();
  encode_all(ranges.first(own), source, out.first(own * size));
  encode_all(ranges.subspan(own + 1), source, out.subspan((own + 1) * size));
}

void FeedbackCoder::encode_all(std::span<const Range> ranges, const Source& source,
                               std::span<std::byte> out) {
  if (ranges.empty()) return;
  const Range& first = ranges.front();
  const std::size_t size = out.size() / ranges.size();
  for (std::size_t i = 0; i < ranges.size(); ++i)
    open(up(), ranges[i], out.subspan(i * size, size));
  const EncodeResult result = device_.encode({.to = job(up(), first, worker_residual(first), out),
                                              .source = source,
                                              .spent = exact_ ? pending_.data() : nullptr,
                                              .sampled_from = place_.shard_begin},
                                             ranges, size);
  bad_ += result.bad;
  sent_ += result.sent;
  residual_ += result.residual;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    seal(up(), ranges[i], out.subspan(i * size, size));
}

void FeedbackCoder::combine(const Range& range, std::span<const std::byte* const> messages,
                            std::span<std::byte> out) {
  for (std::size_t r = 0; r < messages.size(); ++r)
    check(up(), {messages[r], sizes(range.capacity).up}, range, static_cast<int>(r));
  if (own_) {
    added_.assign(messages.begin(), messages.end());
    added_[static_cast<std::size_t>(place_.rank)] =
        reinterpret_cast<const std::byte*>(own_ + range.begin);
    messages = added_;
  }
  open(down(), range, out);
  device_.combine({.to = job(down(), range, server_residual(range), out),
                   .messages = messages,
                   .factor = factor_,
                   .from = up().name() == down().name() ? nullptr : &up()});
  seal(down(), range, out);
}

void FeedbackCoder::decode(std::span<const Range> ranges,
                           std::span<const std::byte* const> messages, std::span<const int> owners,
                           const Sink& sink) {
  const std::size_t size = sizes(ranges.front().capacity).down;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    check(down(), {messages[i], size}, ranges[i], owners[i]);
  device_.decode({.codec = &down(),
                  .block = block_of(down()),
                  .range = ranges.front(),
                  .message = messages.front(),
                  .sink = sink},
                 ranges, messages);
}

EncodeJob FeedbackCoder::job(const Codec& codec, const Range& range, const Residual& residual,
                             std::span<std::byte> out) const {
  return {.codec = &codec,
          .block = block_of(codec),
          .range = range,
          .residual = residual,
          .live = exact_ || round_.live.empty() ? nullptr : round_.live.data(),
          .out = out.data()};
}

void FeedbackCoder::open(const Codec& codec, const Range& range, std::span<std::byte> out) {
  codec.clear({range.capacity, range.count, range.capacity - range.count}, out.data());
}

void FeedbackCoder::seal(const Codec& codec, const Range& range, std::span<std::byte> out) const {
  if (const auto form = codec.form()) wire::seal(out, header(*form, range));
}

// The count is there on every path, since a resume may take another one.
std::vector<State> FeedbackCoder::state() {
  std::vector<State> all;
  if (resets())
    all.push_back({.name = "feedback_exchanges",
                   .values = {},
                   .spread = Spread::kScalar,
                   .scalars = {&exchanges_, 1}});
  if (worker_policy_.keeps && pending_.empty())
    all.push_back({.name = kWorkerResidual,
                   .values = worker_.span(),
                   .spread = Spread::kMean,
                   .begin = place_.shard_begin,
                   .role = Role::kResidual});
  if (server_policy_.keeps)
    all.push_back({.name = kServerResidual,
                   .values = server_.span(),
                   .spread = Spread::kOwned,
                   .begin = place_.chunk_begin,
                   .role = Role::kResidual,
                   .of_host = true});
  return all;
}

// What the caller keeps is already in its values, and counts for each rank of the node.
Residual FeedbackCoder::worker_residual(const Range& range) const {
  if (!worker_policy_.keeps || range.count == 0) return {nullptr, zeros_.data()};
  if (!pending_.empty())
    return kept_at(worker_policy_, pending_.data() + range.begin, nullptr,
                   static_cast<float>(place_.per_node));
  float* e = worker_.data() + (range.begin - place_.shard_begin);
  return kept_at(worker_policy_, e, e, 1);
}

Residual FeedbackCoder::server_residual(const Range& range) const {
  if (!server_policy_.keeps || range.count == 0) return {nullptr, zeros_.data()};
  float* e = server_.data() + (range.begin - place_.chunk_begin);
  return kept_at(server_policy_, e, e, 1);
}

void FeedbackCoder::check(const Codec& codec, std::span<const std::byte> message,
                          const Range& range, int from) const {
  const auto form = codec.form();
  if (!form) return;
  wire::check(message, codec.message_size(range.capacity), header(*form, range), from);
  codec.check(message.data(), range.capacity, range.count, from);
}

}  // namespace

std::unique_ptr<Coder> make_feedback_coder(const MeanConfig& config, const Place& place,
                                           Device& device) {
  return std::make_unique<FeedbackCoder>(config, place, device);
}

}  // namespace laconic::inline collective
