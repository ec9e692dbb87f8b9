#include "laconic/collective/in_place.h"

#include <algorithm>
#include <cstring>

namespace laconic::inline collective {
namespace {

// Long enough for engines whose exchanges cost 100 us each, short enough to stay in L3 between its
// three visits.
constexpr std::size_t kSlice = std::size_t{2} << 20;
// So short that a round costs more than adding all of it everywhere. Two ranks send the same bytes
// either way, more ranks would send more.
constexpr std::size_t kGathered = std::size_t{4} << 10, kTwoShort = std::size_t{1} << 10;

std::span<std::byte> bytes_of(float* first, std::size_t count) {
  return std::as_writable_bytes(std::span(first, count));
}

}  // namespace

// Parts are whole words, as everywhere; what is left of the vector then makes the last slice.
InPlace::InPlace(std::unique_ptr<Pipeline> other, const Nodes& nodes, Device& device,
                 Conveyor* conveyor)
    : other_(std::move(other)),
      conveyor_(conveyor),
      timeline_(nodes.timeline),
      device_(device),
      channel_(nodes.world, nodes.timeline),
      ranks_(static_cast<std::size_t>(nodes.world->size())),
      rank_(static_cast<std::size_t>(nodes.world->rank())),
      whole_(elements() - elements() % (wire::kWord * ranks_)),
      slice_length_(round_up(kSlice, wire::kWord * ranks_)),
      rest_(gathers()              ? elements()
            : whole_ == elements() ? 0
                                   : wire::kWord * ranks_),
      codec_(make_codec("fp32")) {
  slices_ = (whole_ + slice_length_ - 1) / slice_length_ + (rest_.empty() ? 0 : 1);
}

bool InPlace::gathers() const { return ranks_ == 2 && elements() <= kGathered; }

void InPlace::begin(const Source& source, const Sink& sink, const Round& round) {
  if (!in_place(source, sink)) other_->begin(source, sink, round);
}

void InPlace::exchange(const Source& source, const Sink& sink, const Round& round) {
  if (!in_place(source, sink)) other_->exchange(source, sink, round);
}

bool InPlace::in_place(const Source& source, const Sink& sink) {
  const auto* values = std::get_if<Values>(&source);
  const auto* store = std::get_if<Store>(&sink);
  if (!values || !store || values->values != store->to) return false;
  if (conveyor_) conveyor_->drain();
  if (elements() > 0) gathers() ? gather(store->to) : exchange(store->to);
  return true;
}

// What fits two short messages goes in two: MPI sends those without asking whether they are
// expected. The sum waits beside the values until the other rank has read them.
void InPlace::gather(float* values) {
  const std::size_t count = elements(), first = count <= kTwoShort ? count / 2 : count;
  channel_.post({.kind = Kind::kAllGather}, bytes_of(values, first));
  if (first < count)
    channel_.post({.kind = Kind::kAllGather, .continues = true},
                  bytes_of(values + first, count - first));
  add(channel_.arrive(4 * first), first, rest_.data());
  if (first < count) add(channel_.arrive(4 * (count - first)), count - first, rest_.data() + first);
  channel_.finish();
  std::memcpy(values, rest_.data(), 4 * count);
}

void InPlace::add(std::span<const std::byte* const> messages, std::size_t count, float* to) {
  const TimeSpan noted(timeline_, "combine", Timeline::kExchange);
  device_.combine({.to = {.codec = codec_.get(),
                          .block = kTile,
                          .range = {0, count, count},
                          .residual = {},
                          .out = bytes_of(to, count).data()},
                   .messages = messages,
                   .factor = static_cast<float>(1.0 / static_cast<double>(ranks_))});
}

InPlace::Slice InPlace::slice(std::size_t index, float* values) {
  if (!rest_.empty() && index + 1 == slices_) return {rest_.data(), wire::kWord};
  const std::size_t begin = index * slice_length_;
  return {values + begin, std::min(slice_length_, whole_ - begin) / ranks_};
}

void InPlace::exchange(float* values) {
  const std::size_t left = elements() - whole_;
  if (left > 0) std::memcpy(rest_.data(), values + whole_, 4 * left);
  in_turns(slices_, 3, [&](std::size_t phase, std::size_t index) {
    const Slice at = slice(index, values);
    phase == 0 ? send(index, at) : phase == 1 ? combine(index, at) : receive(at);
  });
  channel_.finish();
  if (left > 0) std::memcpy(values + whole_, rest_.data(), 4 * left);
}

void InPlace::send(std::size_t index, const Slice& slice) {
  sent_[index % std::size(sent_)] = channel_.post({.kind = Kind::kAllToAll, .continues = index > 0},
                                                  bytes_of(slice.first, ranks_ * slice.part));
}

// The others' parts are overwritten by their means, so they must have left.
void InPlace::combine(std::size_t index, const Slice& slice) {
  const auto messages = channel_.arrive(4 * slice.part);
  float* own = slice.first + rank_ * slice.part;
  add(messages, slice.part, own);
  channel_.retire_until(sent_[index % std::size(sent_)]);
  channel_.post(
      {.kind = Kind::kAllGather, .continues = index > 0, .into = bytes_of(slice.first, 1).data()},
      bytes_of(own, slice.part));
}

// Engines that cannot write there leave the copying to us.
void InPlace::receive(const Slice& slice) {
  const auto blocks = channel_.arrive(4 * slice.part);
  const TimeSpan noted(timeline_, "decode", Timeline::kExchange);
  for (std::size_t r = 0; r < ranks_; ++r) {
    std::byte* to = bytes_of(slice.first + r * slice.part, 1).data();
    if (blocks[r] != to) std::memcpy(to, blocks[r], 4 * slice.part);
  }
}

}  // namespace laconic::inline collective
