#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "laconic/device/pass.h"

namespace laconic::inline codec {
class Codec;
}

namespace laconic::inline device {

// Of a mean (device/jobs.h): values to messages, messages to one, one to a sink.
struct Range;
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

// Where passes over memory run. Pointers in sources, sinks, passes and jobs are of the device's
// memory; messages, tables of parts and pieces, and what a pass measures are of the host. One thread
// calls at a time; a call returns when the host's part of it is done.
class Device {
 public:
  virtual ~Device() = default;

  // "host, 2 threads".
  virtual std::string describe() const = 0;
  // The memory of the device is the host's.
  virtual bool is_host() const noexcept { return false; }

  // Zeroed, aligned to 64 bytes. Throws std::bad_alloc or Error(kUnavailable). REQUIRES: bytes > 0.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* memory) noexcept = 0;
  // From the device to itself, from the host, to the host (which has it on return). They do not
  // overlap.
  virtual void copy(const void* from, void* to, std::size_t bytes) = 0;
  virtual void copy_in(const void* from_host, void* to, std::size_t bytes) = 0;
  virtual void copy_out(const void* from, void* to_host, std::size_t bytes) = 0;
  virtual void clear(void* at, std::size_t bytes) = 0;

  // The caller works on a queue of its own (a stream of torch's). These calls order the two; a device
  // whose calls return when they are done needs none of them. Only bring() and mark() are called by
  // another thread than the rest.
  virtual void follow_caller(void* /*stream*/) {}  // null: a queue that the device makes
  // On the caller's queue; the host has what it fetches on return.
  virtual void bring(const void* from_host, void* to, std::size_t bytes) {
    copy_in(from_host, to, bytes);
  }
  virtual void bring_back(const void* from, void* to_host, std::size_t bytes) {
    copy_out(from, to_host, bytes);
  }
  // What the caller's queue has so far; what is run after wait() of the same number comes after it.
  virtual void mark(std::size_t /*number*/) {}
  virtual void wait(std::size_t /*number*/) {}
  // What the caller enqueues from now on comes after what was run here.
  virtual void release() {}
  // The host waits until what was run so far is done, counters included: other devices may use its
  // memory.
  virtual void settle() {}

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

  // The same for several ranges of equal capacity: the job is that of the first, whose message is
  // followed by the others', `stride` bytes apart; or one message for each. One launch where the
  // device has kernels.
  virtual EncodeResult encode(const EncodeValues& first, std::span<const Range> ranges,
                              std::size_t stride);
  virtual void decode(const DecodeMessage& first, std::span<const Range> ranges,
                      std::span<const std::byte* const> messages);
  virtual void draw(const DrawSigns& first, std::span<const Range> ranges, std::size_t stride);
  virtual void vote(const CastVotes& first, std::span<const Range> ranges, std::size_t stride);
  // Extras lie as far from the bits in all messages.
  virtual void read(const ReadSigns& first, std::span<const Range> ranges,
                    std::span<const std::uint8_t* const> bits);

  // Before the first combine of so many messages, or count of so many ranks.
  virtual void reserve(const Codec* codec, std::size_t messages) = 0;
  // For work on bytes of the host, between calls.
  virtual Pool& pool() noexcept = 0;
  // Adds up the counters of what is done, without waiting.
  virtual void collect() {}
};

// "cpu", "emulated", "cuda", "cuda:0", …
bool names_device(std::string_view name) noexcept;
// Opens it, with `threads` threads of this process for what runs on the host. Throws
// Error(kInvalidArgument) for another name, Error(kUnavailable) with what to do where it cannot be
// opened.
std::unique_ptr<Device> make_device(std::string_view name, int threads);

// Memory and `threads` threads of this process. REQUIRES: threads >= 1 (throws otherwise).
std::unique_ptr<Device> make_host_device(int threads);

}  // namespace laconic::inline device
