#include "laconic/device/device.h"

#include "laconic/device/jobs.h"

namespace laconic::inline device {

EncodeResult Device::encode(const EncodeValues& first, std::span<const Range> ranges,
                            std::size_t stride) {
  EncodeResult all;
  EncodeValues job = first;
  for (const Range& range : ranges) {
    const Range& begin = first.to.range;
    job.to.range = range;
    if (first.to.residual.kept) {
      job.to.residual.kept = first.to.residual.kept + (range.begin - begin.begin);
      if (first.to.residual.added)
        job.to.residual.added = first.to.residual.added + (range.begin - begin.begin);
    }
    const EncodeResult one = encode(job);
    all.bad += one.bad;
    all.sent += one.sent;
    all.residual += one.residual;
    job.to.out += stride;
  }
  return all;
}

void Device::decode(const DecodeMessage& first, std::span<const Range> ranges,
                    std::span<const std::byte* const> messages) {
  DecodeMessage job = first;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    job.range = ranges[i];
    job.message = messages[i];
    decode(job);
  }
}

void Device::draw(const DrawSigns& first, std::span<const Range> ranges, std::size_t stride) {
  DrawSigns job = first;
  for (const Range& range : ranges) {
    job.range = range;
    draw(job);
    job.bits += stride;
    job.active += stride;
  }
}

void Device::vote(const CastVotes& first, std::span<const Range> ranges, std::size_t stride) {
  CastVotes job = first;
  for (const Range& range : ranges) {
    job.range = range;
    vote(job);
    job.bits += stride;
    job.active += stride;
  }
}

void Device::read(const ReadSigns& first, std::span<const Range> ranges,
                  std::span<const std::uint8_t* const> bits) {
  ReadSigns job = first;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    job.range = ranges[i];
    job.bits = bits[i];
    job.extras = bits[i] + (first.extras - first.bits);
    read(job);
  }
}

}  // namespace laconic::inline device
