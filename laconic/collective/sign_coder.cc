#include "laconic/collective/sign_coder.h"

#include <algorithm>
#include <cstring>

#include "laconic/collective/layout.h"
#include "laconic/wire/chunk.h"

namespace laconic::inline collective {
namespace {

wire::Form form_of(int planes) {
  return planes > 0 ? wire::Form::kCounts : wire::Form::kRandomSigns;
}

}  // namespace

SignCoder::SignCoder(const MeanConfig& config, const Place& place, Device& device, int of_node,
                     int voters, int all)
    : Coder(device),
      config_(config),
      place_(place),
      planes_up_(of_node),
      voters_up_(voters),
      planes_sum_(kernels::planes_of(all)),
      voters_sum_(all),
      bits_(static_cast<std::size_t>(std::max(place.nodes, place.per_node))),
      extras_(bits_.size()) {
  device.reserve(nullptr, static_cast<std::size_t>(all));
}

Sizes SignCoder::sizes(std::size_t capacity) const {
  return sizes_of(config_, place_.per_node, place_.nodes, capacity);
}

wire::Parts<std::byte> SignCoder::open(const Range& range, std::span<std::byte> out,
                                       int planes) const {
  std::memset(out.data() + wire::kHeaderSize, 0, out.size() - wire::kHeaderSize);
  return wire::parts(out, range.capacity, std::max(planes, 1));
}

void SignCoder::seal(const Range& range, std::span<std::byte> out, int planes) const {
  wire::seal(out, header(form_of(planes), range));
}

wire::Parts<const std::byte> SignCoder::checked(const Range& range,
                                                std::span<const std::byte> message,
                                                std::size_t size, int planes, int voters,
                                                int from) const {
  wire::check(message, size, header(form_of(planes), range), from);
  const auto in = wire::parts(message, range.capacity, std::max(planes, 1));
  if (planes > 0) wire::check_voters(in.extras, wire::words(range.count), voters, from);
  return in;
}

void SignCoder::combine(const Range& range, std::span<const std::byte* const> messages,
                        std::span<std::byte> out) {
  const std::size_t size = sizes(range.capacity).up;
  for (std::size_t r = 0; r < messages.size(); ++r) {
    const auto in =
        checked(range, {messages[r], size}, size, planes_up_, voters_up_, static_cast<int>(r));
    bits_[r] = as_bits(in.bits);
    extras_[r] = as_bits(in.extras);
  }
  const auto to = open(range, out, planes_down());
  CountSigns job{.range = range,
                 .bits = {bits_.data(), messages.size()},
                 .extras = {extras_.data(), messages.size()},
                 .planes = planes_up_,
                 .planes_out = planes_sum_,
                 .out = as_bits(to.bits),
                 .out_extras = as_bits(to.extras)};
  if (!counts()) decide(job);
  device_.count(job);
  seal(range, out, planes_down());
}

void SignCoder::decode(std::span<const Range> ranges, std::span<const std::byte* const> messages,
                       std::span<const int> owners, const Sink& sink) {
  const std::size_t size = sizes(ranges.front().capacity).down;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto in =
        checked(ranges[i], {messages[i], size}, size, planes_down(), voters_sum_, owners[i]);
    bits_[i] = as_bits(in.bits);
    extras_[i] = as_bits(in.extras);
  }
  device_.read({.range = ranges.front(),
                .bits = bits_.front(),
                .extras = extras_.front(),
                .planes = planes_down(),
                .sink = sink},
               ranges, {bits_.data(), ranges.size()});
}

wire::Parts<std::byte> SignCoder::open(std::span<const Range> ranges,
                                       std::span<std::byte> out) const {
  const std::size_t size = out.size() / ranges.size();
  for (std::size_t i = ranges.size() - 1; i > 0; --i)
    open(ranges[i], out.subspan(i * size, size), 0);
  return open(ranges.front(), out.first(size), 0);
}

void SignCoder::seal(std::span<const Range> ranges, std::span<std::byte> out) const {
  const std::size_t size = out.size() / ranges.size();
  for (std::size_t i = 0; i < ranges.size(); ++i) seal(ranges[i], out.subspan(i * size, size), 0);
}

}  // namespace laconic::inline collective
