#include "laconic/collective/single_round.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "laconic/collective/conveyor.h"
#include "laconic/collective/layout.h"
#include "laconic/core/error.h"
#include "laconic/wire/chunk.h"

namespace laconic::inline collective {
namespace {

constexpr std::size_t kWord = wire::kWord;
constexpr std::size_t kInFlight = 2 * Outbox::kLag + 1;

}  // namespace

SingleRound::SingleRound(const MeanConfig& config, const Nodes& nodes, Device& device)
    : config_(config),
      nodes_(nodes),
      device_(device),
      ranks_(nodes.world->size()),
      dealing_(config.elements, ranks_, nodes.world->useful_slices()),
      inside_(nodes.inside.get(), nodes.timeline, true),
      between_(&nodes.between(), nodes.timeline),
      cards_(static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(device.pool().threads())),
      from_(static_cast<std::size_t>(ranks_)) {
  const auto ranks = static_cast<std::size_t>(ranks_);
  if (dealing_.slices == 0) return;
  const std::size_t size = dealing_.message_size(0);
  sent_ = {between_, *nodes_.messages, Kind::kAllGather, size, dealing_.slices};
  if (hierarchical())
    forwarded_ = {inside_, *nodes_.messages, Kind::kAllGather,
                  static_cast<std::size_t>(nodes.nodes) * size, dealing_.slices};
  owners_ = Buffer<std::uint16_t>(dealing_.runs_per_slice * ranks * kInFlight);
  const std::size_t words = dealing_.runs_per_slice * ranks;
  wanted_ = Buffer<std::uint8_t>(words);
  bits_ = Buffer<std::uint64_t>(words);
  // Activity is written tile by tile, in whole bytes.
  active_ = Buffer<std::uint8_t>((words + 7) / 8);
}

std::string SingleRound::describe() const {
  return hierarchical() ? fmt::format("random-sign mean, single round, {} nodes of {} ranks",
                                      nodes_.nodes, nodes_.per_node)
                        : fmt::format("random-sign mean, single round, {} ranks", ranks_);
}

std::vector<std::size_t> SingleRound::blocks() const {
  std::vector<std::size_t> begins;
  for (std::size_t at = 0; at < config_.elements; at += kTile) begins.push_back(at);
  return begins;
}

std::uint16_t* SingleRound::owners(std::size_t index) const {
  return owners_.data() +
         index % kInFlight * dealing_.runs_per_slice * static_cast<std::size_t>(ranks_);
}

SingleRound::Slice SingleRound::slice(std::size_t index) const {
  Slice s{};
  s.first_run = index * dealing_.runs_per_slice;
  s.runs = dealing_.runs_of(index);
  s.first_word = s.first_run * static_cast<std::size_t>(ranks_);
  s.words = std::min(s.runs * static_cast<std::size_t>(ranks_), dealing_.words - s.first_word);
  s.begin = s.first_word * kWord;
  s.count = std::min(s.words * kWord, config_.elements - s.begin);
  return s;
}

// Fisher-Yates, from the last card down. Card i of the run is the rank that gets the run's word i.
void SingleRound::deal(std::size_t index) {
  const Slice s = slice(index);
  const auto ranks = static_cast<std::size_t>(ranks_);
  std::uint16_t* owner = owners(index);
  device_.pool().run(s.runs, [&](std::size_t run, int thread) {
    std::uint16_t* cards = cards_.data() + ranks * static_cast<std::size_t>(thread);
    std::iota(cards, cards + ranks, std::uint16_t{0});
    PhiloxCounter random{};
    for (std::size_t i = ranks - 1, drawn = 0; i > 0; --i, ++drawn) {
      if (drawn % 4 == 0)
        random = philox(
            {static_cast<std::uint32_t>(Stream::kDealing), static_cast<std::uint32_t>(drawn / 4),
             config_.bucket, static_cast<std::uint32_t>(s.first_run + run)},
            draw_.key);
      const std::size_t j = (std::uint64_t{random[drawn % 4]} * (i + 1)) >> 32;
      std::swap(cards[i], cards[j]);
    }
    const std::size_t dealt = std::min(ranks, s.words - run * ranks);
    std::copy_n(cards, dealt, owner + run * ranks);
  });
}

void SingleRound::encode(std::size_t index, const Source& source) {
  const TimeSpan noted(nodes_.timeline, "encode", Timeline::kExchange);
  deal(index);
  const Slice s = slice(index);
  const std::uint16_t* owner = owners(index);
  const auto me = static_cast<std::uint16_t>(nodes_.world->rank());
  const auto out = sent_.prepare(index, dealing_.message_size(index));
  const auto to = wire::parts(out, s.runs * kWord);
  std::memset(to.bits, 0, out.size() - wire::kHeaderSize);
  for (std::size_t w = 0; w < s.words; ++w) wanted_[w] = owner[w] == me;
  device_.draw({.range = {s.begin, s.count, s.count},
                .source = source,
                .draw = draw_,
                .wanted = wanted_.data(),
                .bits = reinterpret_cast<std::uint8_t*>(bits_.data()),
                .active = active_.data()});
  for (std::size_t w = 0; w < s.words; ++w) {
    if (wanted_[w] == 0) continue;
    const std::size_t run = w / static_cast<std::size_t>(ranks_);
    std::memcpy(to.bits + 8 * run, &bits_[w], 8);
    to.extras[run / 8] |= static_cast<std::byte>((active_[w / 8] >> (w % 8) & 1) << (run % 8));
  }
  wire::seal(out,
             {wire::Form::kRandomSigns, static_cast<std::uint32_t>(s.runs * kWord), sequence_});
  sent_.post(index);
}

void SingleRound::decode(std::size_t index, const Sink& sink) {
  const Slice s = slice(index);
  const std::size_t size = dealing_.message_size(index);
  const auto blocks = hierarchical() ? inside_.arrive(static_cast<std::size_t>(nodes_.nodes) * size)
                                     : between_.arrive(size);
  const TimeSpan noted(nodes_.timeline, "decode", Timeline::kExchange);
  for (int node = 0; node < nodes_.nodes; ++node)
    for (int local = 0; local < nodes_.per_node; ++local) {
      const int rank = nodes_.rank_of(node, local);
      const std::byte* message = hierarchical() ? blocks[static_cast<std::size_t>(local)] +
                                                      static_cast<std::size_t>(node) * size
                                                : blocks[static_cast<std::size_t>(node)];
      wire::check({message, size}, size,
                  {wire::Form::kRandomSigns, static_cast<std::uint32_t>(s.runs * kWord), sequence_},
                  rank);
      from_[static_cast<std::size_t>(rank)] = message + wire::kHeaderSize;
    }
  const std::uint16_t* owner = owners(index);
  std::memset(active_.data(), 0, active_.size());
  for (std::size_t w = 0; w < s.words; ++w) {
    const std::size_t run = w / static_cast<std::size_t>(ranks_);
    const std::byte* message = from_[owner[w]];
    std::memcpy(&bits_[w], message + 8 * run, 8);
    const auto byte = std::to_integer<unsigned>(message[8 * s.runs + run / 8]);
    active_[w / 8] = static_cast<std::uint8_t>(active_[w / 8] | (byte >> (run % 8) & 1) << (w % 8));
  }
  device_.read({.range = {s.begin, s.count, s.count},
                .bits = reinterpret_cast<const std::uint8_t*>(bits_.data()),
                .extras = active_.data(),
                .sink = sink});
}

void SingleRound::exchange(const Source& source, const Sink& sink, const Round& round) {
  if (config_.conveyor) config_.conveyor->drain();
  ++sequence_;
  draw_ = draw_of(config_, round, nodes_.world->rank());
  in_turns(dealing_.slices, hierarchical() ? 3 : 2, [&](std::size_t phase, std::size_t index) {
    if (phase == 0) return encode(index, source);
    if (phase == 1 && hierarchical())
      return forwarded_.forward(index, between_, dealing_.message_size(index));
    decode(index, sink);
  });
  sent_.rest();
  forwarded_.rest();
  between_.finish();
  inside_.finish();
}

}  // namespace laconic::inline collective
