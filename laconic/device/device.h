#pragma once

#include <memory>

#include "laconic/device/pass.h"

namespace laconic::inline codec {
class Codec;
}

namespace laconic::inline device {

// Of a mean (device/jobs.h): values to messages, messages to one, one to a sink.
struct ShareValues;
struct EncodeValues;
struct EncodeResult;
struct CombineMessages;
struct DecodeMessage;
struct ShareSigns;
struct DrawSigns;
struct CastVotes;
struct CountSigns;
struct ReadSigns;

// Where passes over memory run. Messages are bytes of the host on every device. One thread calls at
// a time; a call returns when it is done.
class Device {
 public:
  virtual ~Device() = default;

  // An update without an exchange.
  virtual void run(const Pass& pass) = 0;
  // A source straight into a sink, for `elements`; `spent` is 0 afterwards (null: none).
  virtual void run(const Source& source, const Sink& sink, std::size_t elements,
                   float* spent = nullptr) = 0;

  virtual void share(const ShareValues& job, std::uint64_t& bad) = 0;
  virtual EncodeResult encode(const EncodeValues& job) = 0;
  virtual void combine(const CombineMessages& job) = 0;
  virtual void decode(const DecodeMessage& job) = 0;

  virtual void share(const ShareSigns& job) = 0;
  virtual void draw(const DrawSigns& job) = 0;
  virtual void vote(const CastVotes& job) = 0;
  virtual void count(const CountSigns& job) = 0;
  virtual void read(const ReadSigns& job) = 0;

  // Before the first combine of so many messages, or count of so many ranks.
  virtual void reserve(const Codec* codec, std::size_t messages) = 0;
  // For work on bytes of the host, between calls.
  virtual Pool& pool() noexcept = 0;
};

// Memory and `threads` threads of this process. REQUIRES: threads >= 1 (throws otherwise).
std::unique_ptr<Device> make_host_device(int threads);

}  // namespace laconic::inline device
