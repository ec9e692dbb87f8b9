#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "laconic/transport/transport.h"

// For those who write an engine or a wrapper: what all of them need.
namespace laconic::inline transport {

// A wrapper may post one exchange of its own beside each of the caller's, so an engine has room for
// both.
inline constexpr int kSlots = 2 * Transport::kInFlight + 2;

// Counts exchanges through their life. The checks throw Error(kInvalidArgument) for a call out of
// order.
struct Flight {
  std::uint64_t posted = 0, arrived = 0, retired = 0;

  void check_post(int limit) const;
  void check_arrive() const;
  void check_retire() const;
  void check_split(int color) const;
};

// The bytes that one rank gets from another. Throws Error(kInvalidArgument) when the ranks do not
// divide `bytes` or the root is not a rank.
std::size_t block_bytes(const Exchange& exchange, std::size_t bytes, int ranks);

// Throws Error(kCorrupt) with both sizes unless the blocks have `expected` bytes: a broken engine
// must not make its caller read beyond what arrived.
void check_block_size(const Blocks& blocks, std::size_t expected);

const char* name(Kind kind) noexcept;

// "posts 12 bytes (all-gather)"
std::string describe(const Exchange& exchange, std::size_t bytes);

// REQUIRES: timeout > 0 (throws otherwise).
void check_timeout(std::chrono::milliseconds timeout);
std::chrono::steady_clock::time_point deadline_after(std::chrono::milliseconds timeout);

// Calls done() until it is true: eagerly at first and whenever `progress` moved, then with short
// sleeps, so that ranks which outnumber the cores do not take time from each other. False when the
// deadline passed.
template <typename Done>
bool poll(Done done, const std::size_t& progress, std::chrono::milliseconds timeout) {
  constexpr auto kEager = std::chrono::microseconds(200), kSleep = std::chrono::microseconds(50);
  // Between processes of one machine a message takes about as long as to yield.
  constexpr int kAtOnce = 32;
  for (int i = 0; i < kAtOnce; ++i)
    if (done()) return true;
  const auto deadline = deadline_after(timeout);
  auto eager_until = std::chrono::steady_clock::now() + kEager;
  for (std::size_t before = progress; !done(); before = progress) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return false;
    if (progress != before) eager_until = now + kEager;
    if (now < eager_until)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kSleep);
  }
  return true;
}

// How messages call ranks: a part of a group calls them as the group that was first made does.
class Names {
 public:
  explicit Names(int ranks);
  Names part(std::span<const int> members) const;

  std::string operator[](int rank) const;              // "rank 3", "world rank 3"
  std::string list(std::span<const int> ranks) const;  // "ranks 1 and 3"

 private:
  Names() = default;
  const char* noun_ = "rank";
  std::vector<int> world_;
};

}  // namespace laconic::inline transport
