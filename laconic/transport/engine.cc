#include "laconic/transport/engine.h"

#include <algorithm>
#include <numeric>

#include "laconic/core/error.h"

namespace laconic::inline transport {

void Flight::check_post(int limit) const {
  if (posted - retired >= static_cast<std::uint64_t>(limit))
    fail(Code::kInvalidArgument,
         "{} exchanges are posted and not retired, {} is the limit: retire some first",
         posted - retired, limit);
}

void Flight::check_arrive() const {
  if (arrived == posted)
    fail(Code::kInvalidArgument, "arrive needs a posted exchange: {} were posted and {} arrived",
         posted, arrived);
}

void Flight::check_retire() const {
  if (retired == arrived)
    fail(Code::kInvalidArgument, "retire needs an arrived exchange: {} arrived and {} retired",
         arrived, retired);
}

void Flight::check_split(int color) const {
  if (color < 0)
    fail(Code::kInvalidArgument, "the color of a split is {}, it must be at least 0", color);
  if (posted != retired)
    fail(Code::kInvalidArgument, "{} exchanges are in flight: retire them before split",
         posted - retired);
}

std::size_t block_bytes(const Exchange& exchange, std::size_t bytes, int ranks) {
  if (exchange.kind == Kind::kBroadcast && (exchange.root < 0 || exchange.root >= ranks))
    fail(Code::kInvalidArgument, "root {} is not a rank of a group of {}", exchange.root, ranks);
  if (exchange.kind != Kind::kAllToAll) return bytes;
  const auto count = static_cast<std::size_t>(ranks);
  if (bytes % count != 0)
    fail(Code::kInvalidArgument, "`in` has {} bytes, which {} ranks do not divide", bytes, ranks);
  return bytes / count;
}

void check_block_size(const Blocks& blocks, std::size_t expected) {
  if (blocks.block_size() != expected)
    fail(Code::kCorrupt,
         "the transport delivered blocks of {} bytes, {} are expected: see whether all ranks run "
         "the same version, and what the transport does with messages",
         blocks.block_size(), expected);
}

const char* name(Kind kind) noexcept {
  switch (kind) {
    case Kind::kAllToAll: return "all-to-all";
    case Kind::kAllGather: return "all-gather";
    case Kind::kBroadcast: return "broadcast";
  }
  return "unknown exchange";
}

std::string describe(const Exchange& exchange, std::size_t bytes) {
  if (exchange.kind == Kind::kBroadcast)
    return fmt::format("posts {} bytes (broadcast from {})", bytes, exchange.root);
  return fmt::format("posts {} bytes ({})", bytes, name(exchange.kind));
}

void check_timeout(std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0)
    fail(Code::kInvalidArgument, "the timeout is {} ms, it must be above 0", timeout.count());
}

std::chrono::steady_clock::time_point deadline_after(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongest =
      std::chrono::hours(24 * 365);  // the clock must not overflow
  return std::chrono::steady_clock::now() + std::min(timeout, kLongest);
}

Names::Names(int ranks) : world_(static_cast<std::size_t>(ranks)) {
  std::iota(world_.begin(), world_.end(), 0);
}

Names Names::part(std::span<const int> members) const {
  Names names;
  names.noun_ = "world rank";
  for (const int rank : members) names.world_.push_back(world_[static_cast<std::size_t>(rank)]);
  return names;
}

std::string Names::operator[](int rank) const {
  return fmt::format("{} {}", noun_, world_[static_cast<std::size_t>(rank)]);
}

std::string Names::list(std::span<const int> ranks) const {
  if (ranks.size() == 1) return (*this)[ranks[0]];
  std::string text = fmt::format("{}s ", noun_);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i != 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += fmt::to_string(world_[static_cast<std::size_t>(ranks[i])]);
  }
  return text;
}

}  // namespace laconic::inline transport
