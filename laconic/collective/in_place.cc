#include "laconic/collective/in_place.h"

#include <algorithm>
#include <cstring>

namespace laconic::inline collective {
namespace {

// Long enough for engines whose exchanges cost 100 us each, short enough to stay in L3 between its
// three visits.
constexpr std::size_t kSlice = std::size_t{2} << 20;

std::span<std::byte> bytes_of(float* first, std::size_t count) {
  return std::as_writable_bytes(std::span(first, count));
}

}  // namespace

// Parts are whole words, as everywhere; what is left of the vector then makes the last slice.
InPlace::InPlace(std::unique_ptr<Pipeline> other, const Nodes& nodes, Device& device)
    : other_(std::move(other)),
      timeline_(nodes.timeline),
      device_(device),
      channel_(nodes.world, nodes.timeline),
      ranks_(static_cast<std::size_t>(nodes.world->size())),
      rank_(static_cast<std::size_t>(nodes.world->rank())),
      whole_(elements() - elements() % (wire::kWord * ranks_)),
      slice_length_(round_up(kSlice, wire::kWord * ranks_)),
      rest_(whole_ == elements() ? 0 : wire::kWord * ranks_),
      codec_(make_codec("fp32")) {
  slices_ = (whole_ + slice_length_ - 1) / slice_length_ + (rest_.empty() ? 0 : 1);
}

void InPlace::exchange(const Source& source, const Sink& sink, const Round& round) {
  const auto* values = std::get_if<Values>(&source);
  const auto* store = std::get_if<Store>(&sink);
  if (values && store && values->values == store->to) return exchange(store->to);
  other_->exchange(source, sink, round);
}

InPlace::Slice InPlace::slice(std::size_t index, float* values) {
  if (!rest_.empty() && index + 1 == slices_) return {rest_.data(), wire::kWord};
  const std::size_t begin = index * slice_length_;
  return {values + begin, std::min(slice_length_, whole_ - begin) / ranks_};
}

void InPlace::exchange(float* values) {
  const std::size_t left = elements() - whole_;
  if (left > 0) std::memcpy(rest_.data(), values + whole_, 4 * left);
  for (std::size_t tick = 0; tick < slices_ + 2 * Outbox::kLag; ++tick) {
    const auto at = [&](std::size_t phase, auto work) {
      if (tick >= phase * Outbox::kLag && tick - phase * Outbox::kLag < slices_)
        work(tick - phase * Outbox::kLag);
    };
    at(0, [&](std::size_t index) { send(index, slice(index, values)); });
    at(1, [&](std::size_t index) { add(index, slice(index, values)); });
    at(2, [&](std::size_t index) { receive(slice(index, values)); });
  }
  channel_.finish();
  if (left > 0) std::memcpy(values + whole_, rest_.data(), 4 * left);
}

void InPlace::send(std::size_t index, const Slice& slice) {
  sent_[index % std::size(sent_)] = channel_.post({.kind = Kind::kAllToAll, .continues = index > 0},
                                                  bytes_of(slice.first, ranks_ * slice.part));
}

// The others' parts are overwritten by their means, so they must have left.
void InPlace::add(std::size_t index, const Slice& slice) {
  const auto messages = channel_.arrive(4 * slice.part);
  float* own = slice.first + rank_ * slice.part;
  {
    const TimeSpan noted(timeline_, "combine", Timeline::kExchange);
    device_.combine({.to = {.codec = codec_.get(),
                            .block = kTile,
                            .range = {0, slice.part, slice.part},
                            .residual = {},
                            .out = bytes_of(own, slice.part).data()},
                     .messages = messages,
                     .factor = static_cast<float>(1.0 / static_cast<double>(ranks_))});
  }
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
