#pragma once

#include <algorithm>
#include <optional>

#include "laconic/core/buffer.h"
#include "laconic/device/jobs.h"

namespace laconic::inline device {

// Memory and threads of this process. Works in tiles that stay in L1 between the steps of a pass.
class HostDevice final : public Device {
 public:
  // REQUIRES: threads >= 1 (throws otherwise).
  explicit HostDevice(int threads = 1);

  std::string describe() const override;
  bool is_host() const noexcept override { return true; }
  void* allocate(std::size_t bytes) override { return allocate_aligned(bytes); }
  void free(void* memory) noexcept override { free_aligned(memory); }
  void copy(const void* from, void* to, std::size_t bytes) override;
  void copy_in(const void* from_host, void* to, std::size_t bytes) override;
  void copy_out(const void* from, void* to_host, std::size_t bytes) override;
  void clear(void* at, std::size_t bytes) override;
  void run(const Pass& pass) override;
  void run(const Source& source, const Sink& sink, std::size_t elements, float* spent) override;
  void share(const ShareValues& job, std::uint64_t& bad) override;
  EncodeResult encode(const EncodeValues& job) override;
  void combine(const CombineMessages& job) override;
  void decode(const DecodeMessage& job) override;
  void share(const ShareSigns& job) override;
  void draw(const DrawSigns& job) override;
  void vote(const CastVotes& job) override;
  void count(const CountSigns& job) override;
  void read(const ReadSigns& job) override;
  void reserve(const Codec* codec, std::size_t messages) override;
  using Device::decode;
  using Device::draw;
  using Device::encode;
  using Device::read;
  using Device::vote;
  Pool& pool() noexcept override { return pool_; }

 private:
  struct Block;
  // A tile per thread, and one that it does not share with others: kernels ask for what comes next.
  float* scratch(int thread) const {
    return scratch_.data() + 2 * kTile * static_cast<std::size_t>(thread);
  }
  std::byte* workspace(int thread) const {
    return workspace_.data() + workspace_size_ * static_cast<std::size_t>(thread);
  }
  template <typename Work>
  void for_each_block(const Range& range, std::size_t block, const Work& work);
  template <typename Make>
  bool encode_block(const EncodeJob& job, const Block& at, Codec::Block& block, const Make& make);
  void encode_exact(const EncodeValues& job, const Block& at);
  void encode_one(const EncodeValues& job, const Block& at);
  std::size_t encode_run(const EncodeValues& job, const Codec::Part& run, int thread);
  // After a block is encoded.
  void finish(const EncodeValues& job, const Block& at);
  void sample(const EncodeJob& job, const Block& at);
  static std::size_t signs_workspace_size(std::size_t messages);
  template <typename Job, typename Work>
  void for_each_sign_tile(const Job& job, Tile blank, const Work& work);
  template <typename Blocks>
  void run_all(const Blocks& pass);
  void run_all(const TensorNorms& pass);
  void run_all(const TensorApply& pass);
  void run_all(const UpdateFloors& pass);
  void run_all(const TileSums& pass);
  void run_all(const Scaling& pass);
  void run_all(const Filling& pass);
  void decode_mean(const CombineMessages& job, std::size_t begin, std::size_t count, int thread,
                   float* q) const;
  void recode(const CombineMessages& job);

  Pool pool_;
  Buffer<float> scratch_;
  std::size_t workspace_size_ = 0;  // of a thread
  Buffer<std::byte> workspace_;
  Buffer<EncodeResult> results_;  // of each thread
};

// Calls work(begin, count, thread) for the pieces of at most `piece` elements of [begin, begin +
// count).
template <typename Work>
void for_each_piece(Pool& pool, std::size_t begin, std::size_t count, std::size_t piece,
                    const Work& work) {
  if (count == 0) return;
  pool.run((count + piece - 1) / piece, [&](std::size_t i, int thread) {
    const std::size_t at = i * piece;
    work(begin + at, std::min(piece, count - at), thread);
  });
}

// Tile by tile, on the host: values of a source, a mean into a sink.
bool fill(const Source& source, Tile& tile);
// What a source is made of from `begin` on, for whoever only adds it up; none: `fill` it.
std::optional<kernels::Terms> terms_of(const Source& source, std::size_t begin);
// Copies values of any number of tiles to `out`; false when any tile was not finite.
bool fill_floats(const Source& source, std::size_t begin, std::size_t count, bool fallback,
                 float* out);
void take(const Sink& sink, std::size_t begin, std::span<const float> mean);
// Votes by the values of a filled tile, where its source has not done so. REQUIRES: tile.ties.
void cast_votes(Tile& tile);

}  // namespace laconic::inline device
