#pragma once

#include <vector>

#include "laconic/device/cuda/gpu.h"
#include "laconic/device/host.h"
#include "laconic/device/jobs.h"

namespace laconic::inline device {

// A GPU, or its stand-in. Passes are kernels on a stream of the device's own; messages are staged in
// pinned memory, so only coded bytes cross to the host. Owners combine on the host. What comes back
// is waited for by its own event; the rest is enqueued.
class CudaDevice final : public Device {
 public:
  // `checked`: how the GPU was compared with the CPU, for describe().
  CudaDevice(std::shared_ptr<cuda::Gpu> gpu, int threads, std::string checked);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  std::string describe() const override;
  void* allocate(std::size_t bytes) override;
  void free(void* memory) noexcept override;
  void copy(const void* from, void* to, std::size_t bytes) override;
  void copy_in(const void* from_host, void* to, std::size_t bytes) override;
  void copy_out(const void* from, void* to_host, std::size_t bytes) override;
  void clear(void* at, std::size_t bytes) override;

  void follow_caller(void* stream) override;
  void bring(const void* from_host, void* to, std::size_t bytes) override;
  void bring_back(const void* from, void* to_host, std::size_t bytes) override;
  void mark(std::size_t number) override;
  void wait(std::size_t number) override;
  void release() override;
  void settle() override;
  void collect() override;

  void run(const Pass& pass) override;
  void run(const Source& source, const Sink& sink, std::size_t elements, float* spent) override;
  void share(const ShareValues& job, std::uint64_t& bad) override;
  EncodeResult encode(const EncodeValues& job) override {
    return encode(job, {&job.to.range, 1}, 0);
  }
  EncodeResult encode(const EncodeValues& first, std::span<const Range> ranges,
                      std::size_t stride) override;
  void combine(const CombineMessages& job) override;
  void decode(const DecodeMessage& job) override {
    decode(job, {&job.range, 1}, {&job.message, 1});
  }
  void decode(const DecodeMessage& first, std::span<const Range> ranges,
              std::span<const std::byte* const> messages) override;
  void share(const ShareSigns& job) override;
  void draw(const DrawSigns& job) override { draw(job, {&job.range, 1}, 0); }
  void draw(const DrawSigns& first, std::span<const Range> ranges, std::size_t stride) override;
  void vote(const CastVotes& job) override { vote(job, {&job.range, 1}, 0); }
  void vote(const CastVotes& first, std::span<const Range> ranges, std::size_t stride) override;
  void count(const CountSigns& job) override { host_.count(job); }
  void read(const ReadSigns& job) override { read(job, {&job.range, 1}, {&job.bits, 1}); }
  void read(const ReadSigns& first, std::span<const Range> ranges,
            std::span<const std::uint8_t* const> bits) override;
  void reserve(const Codec* codec, std::size_t messages) override {
    host_.reserve(codec, messages);
  }
  Pool& pool() noexcept override { return host_.pool(); }

 private:
  // Pinned memory and memory of the device, equally long: a counter, then what a call needs.
  struct Slot {
    char* pinned = nullptr;
    cuda::Address device = 0;
    std::size_t bytes = 0;
    cuda::Event done{};
    bool busy = false;              // until `done` was seen
    Counter* counts_for = nullptr;  // the counter goes there then
  };
  static constexpr std::size_t kSlots = 8, kHead = 256;

  // What a source is for the kernels.
  struct Given {
    cuda::Source source{};
    float* recorded = nullptr;
    Counter* exact_bad = nullptr;
    std::size_t exact_block = 0;  // of exact_bad; 0: as the job has it
  };
  // What kernels of signs take.
  struct SignsJob;

  // Free for a call that needs so many bytes after the head.
  Slot& slot(std::size_t bytes);
  void grow(Slot& slot, std::size_t bytes);
  void finish(Slot& slot);
  // The counter and `bytes` after the head, to the device or back. The host waits for what comes
  // back.
  void upload(const Slot& slot, std::size_t bytes);
  void download(Slot& slot, std::size_t bytes);
  void clear_counter(const Slot& slot);
  // Nothing comes back but the counter, where that is wanted.
  void enqueue(Slot& slot, Counter* counts_for);
  cuda::Counter* counter(const Slot& slot) const;
  template <typename T>
  T* payload(const Slot& slot, std::size_t offset = 0) const {
    return reinterpret_cast<T*>(slot.device + kHead + offset);
  }
  static std::uint64_t counted(const Slot& slot);

  template <typename Arguments>
  void launch(std::string_view kernel, cuda::Grid grid, const Arguments& arguments);
  void check(int result, const char* what) const { gpu_->driver().check(result, what); }

  // Uploads what the ranks of a node shared, where that is the source.
  Given given(const Source& source, std::span<const Range> ranges);
  const float* ratios(const Source& source, std::span<const Range> ranges);
  const float* joined(const NodeSum& source, const Range& range);
  EncodeResult encode_lossy(const EncodeValues& job, std::span<const Range> ranges,
                            std::size_t stride);
  void encode_exact(const EncodeValues& job, std::span<const Range> ranges, std::size_t stride);
  cuda::DenseArguments dense(const Given& given, std::span<const Range> ranges,
                             std::size_t block) const;
  void signs(std::string_view kernel, const SignsJob& job);
  // The mean lies in `of`; parts of an AdamW step are put after `used` bytes of the slot.
  void take(const Sink& sink, const cuda::Decoding& of, std::size_t rows, Slot& slot,
            std::size_t used, float* recorded = nullptr);
  float* scratch(std::size_t elements);
  // `sums` null: none; else squared norms of x, then of u.
  template <typename Sum>
  void run_tensors(std::string_view kernel, std::span<const TensorPart> parts,
                   std::span<const TensorPiece> pieces, Sum* sums);

  void run_one(const LocalStep& pass);
  void run_one(const MomentsApply& pass);
  void run_one(const TensorNorms& pass);
  void run_one(const TensorApply& pass);
  void run_one(const UpdateFloors& pass);
  void run_one(const TileSums& pass);
  void run_one(const Scaling& pass);
  void run_one(const Filling& pass);

  std::shared_ptr<cuda::Gpu> gpu_;
  std::string checked_;
  HostDevice host_;
  cuda::Stream stream_{}, own_caller_{};  // the latter where the caller has none
  cuda::Stream caller_{};
  cuda::Event done_{}, came_{}, fetched_{};
  std::vector<cuda::Event> marks_;
  Slot slots_[kSlots];
  std::size_t next_ = 0;
  cuda::Address scratch_ = 0, joined_ = 0;
  std::size_t scratch_bytes_ = 0, joined_bytes_ = 0;
  std::vector<float> live_;  // of the chunk that this rank owns
};

}  // namespace laconic::inline device
