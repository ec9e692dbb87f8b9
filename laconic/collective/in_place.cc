#include "laconic/collective/in_place.h"

#include <algorithm>
#include <cstring>

#include "laconic/collective/layout.h"

namespace laconic::inline collective {
namespace {

// A slice is visited three times: short ones stay in L2 meanwhile, these in L3.
constexpr std::size_t kLongest = std::size_t{2} << 20;
// A vector of so many elements over useful_slices() is so short that a round costs more than adding
// all of it everywhere. Two ranks send the same bytes either way, more ranks would send more.
constexpr std::size_t kGathered = std::size_t{256} << 10, kTwoShort = std::size_t{1} << 10;

// Short ones where exchanges cost next to nothing; of bf16 twice as long, which are as many bytes.
// Elsewhere several at once are slower than one after the other.
std::size_t slice_for(const Transport& world, std::size_t elements, bool encodes) {
  if (world.useful_slices() < Transport::kUsefulSlices) return kLongest;
  const std::size_t length = slice_elements(elements, kLongest, world.useful_slices());
  return std::min(kLongest, encodes ? 2 * length : length);
}

template <typename T>
std::span<std::byte> bytes_of(T* first, std::size_t count) {
  return std::as_writable_bytes(std::span(first, count));
}

}  // namespace

// Parts are whole words, as everywhere; what is left of the vector then makes the last slice.
InPlace::InPlace(std::string_view codec, std::unique_ptr<Pipeline> other, const Nodes& nodes,
                 Device& device, Conveyor* conveyor)
    : other_(std::move(other)),
      conveyor_(conveyor),
      timeline_(nodes.timeline),
      device_(device),
      channel_(nodes.world, nodes.timeline),
      codec_(make_codec(codec)),
      encodes_(codec_->combines_own()),
      ranks_(static_cast<std::size_t>(nodes.world->size())),
      rank_(static_cast<std::size_t>(nodes.world->rank())),
      whole_(elements() - elements() % (wire::kWord * ranks_)),
      slice_length_(round_up(slice_for(*nodes.world, elements(), encodes_), wire::kWord * ranks_)),
      gathered_(kGathered / static_cast<std::size_t>(nodes.world->useful_slices())),
      slices_((whole_ + slice_length_ - 1) / slice_length_ + (whole_ < elements() ? 1 : 0)),
      rest_(gathers()              ? elements()
            : whole_ == elements() ? 0
                                   : wire::kWord * ranks_),
      messages_(ranks_) {
  device_.reserve(codec_.get(), ranks_);
  if (!encodes_ || gathers()) return;
  const std::size_t longest = std::max(std::min(whole_, slice_length_), rest_.size()) / ranks_;
  const std::size_t size = codec_->message_size(longest);
  encoded_ = {channel_, *nodes.messages, Kind::kAllToAll, ranks_ * size, slices_};
  combined_ = {channel_, *nodes.messages, Kind::kAllGather, size, slices_};
}

bool InPlace::gathers() const { return ranks_ == 2 && elements() <= gathered_; }

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
  if (elements() == 0) return true;
  if (!gathers())
    exchange(store->to);
  else
    encodes_ ? gather_encoded(store->to) : gather(store->to);
  return true;
}

// What fits two short messages goes in two: MPI sends those without asking whether they are
// expected. The sum waits beside the values until the other rank has read them.
void InPlace::gather(float* values) {
  const std::size_t count = elements(), first = count <= kTwoShort ? count / 2 : count;
  const auto sum = [&](std::size_t begin, std::size_t length) {
    add(channel_.arrive(4 * length), length, bytes_of(rest_.data() + begin, length).data());
  };
  channel_.post({.kind = Kind::kAllGather}, bytes_of(values, first));
  if (first < count)
    channel_.post({.kind = Kind::kAllGather, .continues = true},
                  bytes_of(values + first, count - first));
  sum(0, first);
  if (first < count) sum(first, count - first);
  channel_.finish();
  std::memcpy(values, rest_.data(), 4 * count);
}

// The message, and beside it the mean, which nobody reads.
void InPlace::gather_encoded(float* values) {
  const std::size_t size = codec_->message_size(elements());
  const auto room = bytes_of(rest_.data(), rest_.size());
  encode(values, elements(), room.data());
  channel_.post({.kind = Kind::kAllGather}, room.first(size));
  add(others(channel_.arrive(size)), elements(), room.data() + size, values);
  channel_.finish();
}

void InPlace::encode(const float* values, std::size_t count, std::byte* message) {
  device_.encode({.to = {.codec = codec_.get(),
                         .block = kTile,
                         .range = {0, count, count},
                         .residual = {},
                         .out = message},
                  .source = Values{values}});
}

void InPlace::decode(const std::byte* message, std::size_t count, float* values) {
  device_.decode({.codec = codec_.get(),
                  .block = kTile,
                  .range = {0, count, count},
                  .message = message,
                  .sink = Store{values}});
}

void InPlace::add(std::span<const std::byte* const> messages, std::size_t count, std::byte* out,
                  float* own) {
  const TimeSpan noted(timeline_, "combine", Timeline::kExchange);
  device_.combine({.to = {.codec = codec_.get(),
                          .block = kTile,
                          .range = {0, count, count},
                          .residual = {},
                          .out = out},
                   .messages = messages,
                   .factor = static_cast<float>(1.0 / static_cast<double>(ranks_)),
                   .own = own});
}

std::span<const std::byte* const> InPlace::others(std::span<const std::byte* const> messages) {
  std::ranges::copy(messages, messages_.begin());
  messages_[rank_] = nullptr;
  return messages_;
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
  encoded_.rest();
  combined_.rest();
  channel_.finish();
  if (left > 0) std::memcpy(values + whole_, rest_.data(), 4 * left);
}

void InPlace::send(std::size_t index, const Slice& slice) {
  if (!encodes_) {
    sent_[index % std::size(sent_)] =
        channel_.post({.kind = Kind::kAllToAll, .continues = index > 0},
                      bytes_of(slice.first, ranks_ * slice.part));
    return;
  }
  const std::size_t size = codec_->message_size(slice.part);
  const auto out = encoded_.prepare(index, ranks_ * size);
  const TimeSpan noted(timeline_, "encode", Timeline::kExchange);
  for (std::size_t r = 0; r < ranks_; ++r)
    if (r != rank_) encode(slice.first + r * slice.part, slice.part, out.data() + r * size);
  encoded_.post(index);
}

// Where fp32 lies, the others' parts are overwritten by their means, so they must have left.
void InPlace::combine(std::size_t index, const Slice& slice) {
  const std::size_t size = codec_->message_size(slice.part);
  float* own = slice.first + rank_ * slice.part;
  if (encodes_) {
    const auto out = combined_.prepare(index, size);
    add(others(channel_.arrive(size)), slice.part, out.data(), own);
    combined_.post(index);
    return;
  }
  add(channel_.arrive(size), slice.part, bytes_of(own, 1).data());
  channel_.retire_until(sent_[index % std::size(sent_)]);
  channel_.post(
      {.kind = Kind::kAllGather, .continues = index > 0, .into = bytes_of(slice.first, 1).data()},
      bytes_of(own, slice.part));
}

// Engines that cannot write there leave the copying to us.
void InPlace::receive(const Slice& slice) {
  const auto blocks = channel_.arrive(codec_->message_size(slice.part));
  const TimeSpan noted(timeline_, "decode", Timeline::kExchange);
  for (std::size_t r = 0; r < ranks_; ++r) {
    float* to = slice.first + r * slice.part;
    if (!encodes_ && blocks[r] != bytes_of(to, 1).data())
      std::memcpy(to, blocks[r], 4 * slice.part);
    if (encodes_ && r != rank_) decode(blocks[r], slice.part, to);
  }
}

}  // namespace laconic::inline collective
