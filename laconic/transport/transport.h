#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "laconic/core/buffer.h"

namespace laconic::inline transport {

// What an exchange does with `in`: block r goes to rank r; all of it goes to everyone; the root's
// goes to everyone.
enum class Kind : std::uint8_t { kAllToAll, kAllGather, kBroadcast };

struct Exchange {
  Kind kind = Kind::kAllGather;
  int root = 0;  // kBroadcast only
  bool continues =
      false;  // a further slice of the collective posted before: costs bytes, but no round
  // kAllGather: where the caller would have the blocks, one after the other, its own among them
  // already (that is `in`); null: anywhere. An engine that cannot put them there need not. Stays the
  // caller's until the exchange retires or, if that throws, until the transport is gone.
  std::byte* into = nullptr;
};

// The blocks that arrived, one per rank, of equal size. Views of the transport's memory, or of the
// sender's own.
class Blocks {
 public:
  Blocks(const std::byte* const* first, std::size_t size) : first_(first), size_(size) {}
  std::span<const std::byte> operator[](int rank) const { return {first_[rank], size_}; }
  std::size_t block_size() const noexcept { return size_; }

 private:
  const std::byte* const* first_;
  std::size_t size_;
};

// Moves bytes between the ranks of a group. Every rank posts the same exchanges, of the same
// lengths, in the same order; they arrive and retire in that order too. An exchange is posted (`in`
// must stay as it is), arrives (its blocks may be read until the next arrive or retire), and
// retires (`in` may be reused: everyone has read it). At most kInFlight are posted and not retired
// (an engine has room for twice as many, for wrappers). Throws Error(kTimeout) naming the rank that
// is missing, Error(kInvalidArgument) when the ranks' calls do not fit together, Error(kTransport)
// when the engine fails; the group is unusable afterwards. One thread at a time per Transport.
class Transport {
 public:
  static constexpr int kInFlight = 64;
  static constexpr int kUsefulSlices = 32;

  virtual ~Transport() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  // Equal for ranks that share memory, different otherwise.
  virtual std::uint64_t host() const noexcept = 0;
  // Into how many slices a long message is best cut, so that coding overlaps with sending: fewer
  // where each exchange costs much. Equal on all ranks.
  virtual int useful_slices() const noexcept { return kUsefulSlices; }

  virtual void post(const Exchange& exchange, std::span<const std::byte> in) = 0;
  virtual Blocks arrive() = 0;
  virtual void retire() = 0;
  // For a caller that gives up in the middle: takes memory that was posted and did not retire, and
  // frees it when nobody can be reading it. By default that is never.
  virtual void keep(Buffer<std::byte> memory) noexcept;

  // Called every now and then by a thread that waits for one which is in this transport: it may make
  // that one give up. Any thread, at any time. By default it does nothing.
  virtual void idle() noexcept {}

  // How long arrive and retire wait for another rank.
  virtual std::chrono::milliseconds timeout() const noexcept;

  // The ranks that gave the same color, in the order of their ranks here. Collective. REQUIRES:
  // color >= 0 and nothing is in flight (throws otherwise).
  virtual std::unique_ptr<Transport> split(int color) = 0;

  // The simple forms: post, arrive, copy, retire. REQUIRES: nothing else is in flight.
  void all_to_all(std::span<const std::byte> in, std::span<std::byte> out);
  void all_gather(std::span<const std::byte> in, std::span<std::byte> out);
  void broadcast(std::span<std::byte> bytes, int root);

  // Gathers the values of every rank, in rank order. `all` keeps its memory from call to call.
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void gather(std::span<const T> mine, std::vector<T>& all) {
    all.resize(mine.size() * static_cast<std::size_t>(size()));
    all_gather(std::as_bytes(mine), std::as_writable_bytes(std::span(all)));
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T> std::vector<T> gather(const T& mine) {
    std::vector<T> all;
    gather(std::span(&mine, 1), all);
    return all;
  }
};

inline constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::minutes(5);

}  // namespace laconic::inline transport
