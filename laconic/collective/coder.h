#pragma once

#include "laconic/codec/codec.h"
#include "laconic/collective/mean.h"
#include "laconic/device/jobs.h"

namespace laconic::inline collective {

// Bytes of the messages of a range: this rank's values inside its node, up to the owner of the
// chunk, and down from the owner to all.
struct Sizes {
  std::size_t share = 0, up = 0, down = 0;
};

// How values become messages and messages a mean. Used by a Pipeline, which knows who talks to
// whom. Calls for different ranges come one after the other.
class Coder {
 public:
  virtual ~Coder() = default;
  virtual Sizes sizes(std::size_t capacity) const = 0;

  // Inside a node (hierarchies only): this rank's values.
  virtual void share(const Range& range, const Source& source, std::span<std::byte> out) = 0;

  // Between nodes: every worker encodes for the owner of the range (its values, or what the ranks
  // of its node shared), the owner combines the messages into one, all decode it.
  // The values of several ranges of equal capacity: one message each, one after the other.
  virtual void encode(std::span<const Range> ranges, const Source& source,
                      std::span<std::byte> out) = 0;
  virtual void encode_node(const Range& range, std::span<const std::byte* const> shares,
                           std::span<std::byte> out) = 0;
  virtual void combine(const Range& range, std::span<const std::byte* const> messages,
                       std::span<std::byte> out) = 0;
  // One message for each range, from these ranks.
  virtual void decode(std::span<const Range> ranges, std::span<const std::byte* const> messages,
                      std::span<const int> owners, const Sink& sink) = 0;

  // Before the first range of an exchange.
  virtual void begin(const Round&) { ++sequence_; }
  virtual std::vector<State> state() { return {}; }
  virtual std::uint64_t bad_blocks() const noexcept { return 0; }
  virtual double residual_ratio() const noexcept { return 0; }
  virtual std::string describe() const = 0;

 protected:
  explicit Coder(Device& device) : device_(device) {}

  wire::Header header(wire::Form form, const Range& range) const {
    return {form, static_cast<std::uint32_t>(range.count), sequence_};
  }

  Device& device_;

 private:
  std::uint32_t sequence_ = 0;
};

// What a coder may know of where it runs.
struct Place {
  int rank = 0;   // in the world
  int nodes = 1;  // how many messages an owner combines
  int per_node = 1;
  std::size_t shard_begin = 0, shard_count = 0;  // what this rank encodes
  std::size_t chunk_begin = 0, chunk_count = 0;  // what this rank owns
};

// Any codec, with error feedback where it is lossy.
std::unique_ptr<Coder> make_feedback_coder(const MeanConfig& config, const Place& place,
                                           Device& device);
std::unique_ptr<Coder> make_random_sign_coder(const MeanConfig& config, const Place& place,
                                              Device& device);
std::unique_ptr<Coder> make_vote_coder(const MeanConfig& config, const Place& place,
                                       Device& device);

// Names of residuals in checkpoints; role_of knows them.
inline constexpr const char* kWorkerResidual = "worker_residual";
inline constexpr const char* kServerResidual = "server_residual";

// The keys of one exchange's random numbers.
kernels::Draw draw_of(const MeanConfig& config, const Round& round, int rank);

// The longest run of whole blocks that fits a tile; a tile where blocks are longer.
constexpr std::size_t tile_of(std::size_t block) {
  return block == 0 || block > kTile ? kTile : kTile / block * block;
}

}  // namespace laconic::inline collective
