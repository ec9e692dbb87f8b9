#include <algorithm>
#include <cstring>
#include <map>

#include "laconic/core/error.h"
#include "laconic/device/cuda/cuda_device.h"
#include "laconic/device/cuda/launch-inl.h"
#include "laconic/kernels/dense.h"

namespace laconic::inline device {
namespace {

[[noreturn]] void refuse(const char* what) {
  fail(Code::kUnavailable, "{} runs on the host only: train with device = cpu", what);
}

std::size_t header_of(const Codec& codec) { return codec.form() ? wire::kHeaderSize : 0; }

}  // namespace

const float* CudaDevice::joined(const NodeSum& source, const Range& range) {
  std::vector<const float*> from;
  for (const std::byte* share : source.shares)
    from.push_back(reinterpret_cast<const float*>(share) + (range.begin - source.begin));
  const std::size_t bytes = 4 * range.count;
  Slot& staged = slot(bytes);
  kernels::sum(from.data(), static_cast<int>(from.size()), range.count, source.factor,
               reinterpret_cast<float*>(staged.pinned + kHead));
  if (joined_bytes_ < bytes) {
    if (joined_ != 0) check(gpu_->driver().free(joined_), "freeing memory");
    joined_bytes_ = 0;
    check(gpu_->driver().allocate(&joined_, bytes), "allocating memory");
    joined_bytes_ = bytes;
  }
  check(gpu_->driver().to_device(joined_, staged.pinned + kHead, bytes, stream_),
        "a copy to the GPU");
  enqueue(staged, nullptr);
  return reinterpret_cast<const float*>(joined_) - range.begin;
}

CudaDevice::Given CudaDevice::given(const Source& source, std::span<const Range> ranges) {
  const Range& range = ranges.front();
  using cuda::SourceKind;
  Given all;
  if (const auto* one = std::get_if<Values>(&source)) {
    all.source.kind = SourceKind::kValues;
    all.source.values = one->values;
    all.source.checked = all.source.zero = one->checked;
  } else if (const auto* one = std::get_if<Momentum>(&source)) {
    all.source.kind = SourceKind::kMomentum;
    all.source.values = one->g;
    all.source.m = one->m;
    all.source.step = one->step;
    all.exact_bad = one->exact_bad;
  } else if (const auto* one = std::get_if<PendingMomentum>(&source)) {
    all.source.kind = SourceKind::kPendingMomentum;
    all.source.values = one->g;
    all.source.m = one->m;
    all.source.pending = one->pending;
    all.source.step = one->step;
    all.source.shrink = one->shrink;
    all.exact_bad = one->exact_bad;
  } else if (const auto* one = std::get_if<Displacement>(&source)) {
    all.source.kind = SourceKind::kDisplacement;
    all.source.values = one->x_sync;
    all.source.m = one->x;
    all.exact_bad = one->exact_bad.count;
    all.exact_block = one->exact_bad.block;
  } else if (const auto* one = std::get_if<NodeSum>(&source)) {
    all.source.kind = SourceKind::kValues;
    all.source.values = range.count == 0 ? nullptr : joined(*one, range);
    all.source.zero = 1;
  } else if (const auto* one = std::get_if<RecordedSource>(&source)) {
    all = given(*one->of, ranges);
    all.recorded = one->values;
  } else if (std::holds_alternative<SignMoments>(source) ||
             std::holds_alternative<LionVotes>(source)) {
    all.source.kind = SourceKind::kValues;
    all.source.values = ratios(source, ranges);
  } else if (std::holds_alternative<Corrected>(source)) {
    refuse("an exact mean that adds residuals (exchange = auto, guard)");
  } else {
    refuse("a source of the caller's own");
  }
  return all;
}

EncodeResult CudaDevice::encode(const EncodeValues& first, std::span<const Range> ranges,
                                std::size_t stride) {
  if (ranges.size() > 1 && !lie_regularly(ranges)) return Device::encode(first, ranges, stride);
  const cuda::Gpu::Current current(*gpu_);
  if (!first.to.codec->exact()) return encode_lossy(first, ranges, stride);
  encode_exact(first, ranges, stride);
  return {};
}

EncodeResult CudaDevice::encode_lossy(const EncodeValues& job, std::span<const Range> ranges,
                                      std::size_t stride) {
  const EncodeJob& to = job.to;
  const Range& range = ranges.front();
  const CodecShape shape = shape_of(*to.codec);
  const bool in_parts = to.block == 0;
  const std::size_t block = in_parts ? range.capacity : to.block;
  const std::size_t header = header_of(*to.codec);
  const std::size_t bytes = to.codec->message_size(range.capacity) - header;
  const Residual& residual = to.residual;

  // Blocks are numbered from sampled_from on, one in 16 is sampled.
  const std::size_t unit = in_parts ? 1 : block;
  const std::size_t first = (range.begin - job.sampled_from) / unit / 16;
  const cuda::Rows rows = rows_of(ranges, static_cast<std::size_t>(cuda::item_of(integer(block))));
  const std::size_t end = std::max(range.begin + 1, static_cast<std::size_t>(rows.end));
  const std::size_t last = (end - 1 - job.sampled_from) / unit / 16;
  const std::size_t of_row = 2 * (last - first + 1);
  const std::size_t samples = residual.kept ? of_row * ranges.size() : 0;
  const std::size_t apart = padded(bytes), samples_at = apart * ranges.size();

  const Given from = given(job.source, ranges);
  Slot& out = slot(samples_at + 8 * samples);
  clear_counter(out);
  if (samples != 0)
    check(gpu_->driver().set_bytes(out.device + kHead + samples_at, 0, 8 * samples, stream_),
          "clearing memory");
  const auto of_vector = [&](auto* at) { return at ? at - range.begin : nullptr; };
  cuda::EncodeArguments with{};
  with.rows = rows;
  with.out = {payload<std::uint8_t>(out), integer(apart)};
  with.kept = of_vector(residual.kept);
  with.added = residual.kept ? of_vector(residual.added) : nullptr;
  with.live = to.live;
  with.recorded = from.recorded;
  with.bad = counter(out);
  with.samples = samples == 0 ? nullptr : payload<double>(out, samples_at) - 2 * first;
  with.sampled_from = integer(job.sampled_from);
  with.samples_stride = integer(of_row);
  with.block = integer(block);
  with.source = from.source;
  with.gain = residual.gain;
  with.share = residual.share;
  with.keep = residual.keep;
  with.norm = shape.norm;
  with.in_parts = in_parts;
  with.bits = static_cast<std::uint8_t>(shape.bits);
  with.adds_zero = !residual.kept && residual.added;
  with.slots = shape.slots;
  launch(shape.encode, cuda::encode_grid(rows, static_cast<unsigned>(ranges.size())), with);
  download(out, samples_at + 8 * samples);
  for (std::size_t i = 0; i < ranges.size(); ++i)
    std::memcpy(to.out + i * stride + header, out.pinned + kHead + i * apart, bytes);
  EncodeResult result{.bad = counted(out), .sent = 0, .residual = 0};
  for (std::size_t i = 0; i < samples; i += 2) {
    double pair[2];
    std::memcpy(pair, out.pinned + kHead + samples_at + 8 * i, sizeof pair);
    result.residual += pair[0];
    result.sent += pair[1];
  }
  return result;
}

// A block that is bad falls back where the source counts such blocks.
cuda::DenseArguments CudaDevice::dense(const Given& given, std::span<const Range> ranges,
                                       std::size_t block) const {
  const bool momentum = given.source.kind == cuda::SourceKind::kMomentum ||
                        given.source.kind == cuda::SourceKind::kPendingMomentum;
  if (given.exact_bad && given.exact_block != 0 && block % given.exact_block == 0)
    block = given.exact_block;
  cuda::DenseArguments with{};
  with.rows = rows_of(ranges, block);
  with.recorded = given.recorded;
  with.source = given.source;
  with.falls_back = momentum || given.exact_bad;
  return with;
}

void CudaDevice::encode_exact(const EncodeValues& job, std::span<const Range> ranges,
                              std::size_t stride) {
  const EncodeJob& to = job.to;
  const std::size_t bytes = to.codec->message_size(ranges.front().capacity);
  const std::size_t apart = padded(bytes);
  const Given from = given(job.source, ranges);
  Slot& out = slot(apart * ranges.size());
  clear_counter(out);
  cuda::DenseArguments with = dense(from, ranges, to.block);
  with.out = {payload<std::uint8_t>(out), integer(apart)};
  with.spent = job.spent;
  with.bad = counter(out);
  with.bf16 = to.codec->name() == "bf16";
  launch("encode_dense", cuda::encode_grid(with.rows, static_cast<unsigned>(ranges.size())), with);
  download(out, apart * ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i)
    std::memcpy(to.out + i * stride, out.pinned + kHead + i * apart, bytes);
  if (from.exact_bad) from.exact_bad->fetch_add(counted(out), std::memory_order_relaxed);
}

void CudaDevice::share(const ShareValues& job, std::uint64_t& bad) {
  const cuda::Gpu::Current current(*gpu_);
  const std::size_t bytes = 4 * job.range.capacity;
  const Given from = given(job.source, {&job.range, 1});
  Slot& out = slot(bytes);
  clear_counter(out);
  cuda::DenseArguments with =
      dense(from, {&job.range, 1}, job.block == 0 ? job.range.capacity : job.block);
  if (!from.exact_bad) with.falls_back = job.falls_back;
  with.out = {payload<std::uint8_t>(out), 0};
  with.spent = job.spent;
  with.bad = counter(out);
  launch("encode_dense", cuda::encode_grid(with.rows, 1), with);
  download(out, bytes);
  std::memcpy(job.out, out.pinned + kHead, bytes);
  if (from.exact_bad)
    from.exact_bad->fetch_add(counted(out), std::memory_order_relaxed);
  else
    bad += counted(out);
}

// The mask of the chunk comes to the host, where owners combine.
void CudaDevice::combine(const CombineMessages& job) {
  if (!job.to.live || job.to.range.count == 0) return host_.combine(job);
  CombineMessages here = job;
  live_.resize(std::max(live_.size(), job.to.range.count));
  copy_out(job.to.live + job.to.range.begin, live_.data(), 4 * job.to.range.count);
  here.to.live = live_.data() - job.to.range.begin;
  host_.combine(here);
}

// Where the result goes: bits (or ratios) and activity, which a kernel writes one after the other.
struct CudaDevice::SignsJob {
  std::span<const Range> ranges;
  const Source& source;
  std::size_t bits;  // bytes
  void *out, *active;
  std::size_t stride = 0;  // bytes, from one range's to the next
  kernels::Draw draw{};
  kernels::Ties ties{};
  const std::uint8_t* wanted = nullptr;
  float* recorded = nullptr;
};

void CudaDevice::signs(std::string_view kernel, const SignsJob& job) {
  const cuda::Gpu::Current current(*gpu_);
  const std::size_t capacity = job.ranges.front().capacity, rows = job.ranges.size();
  const std::size_t active = wire::activity_size(capacity);
  const std::size_t apart = padded(job.bits + active), wanted_at = apart * rows;
  const std::size_t wanted = job.wanted ? wire::words(capacity) : 0;
  Slot& out = slot(wanted_at + wanted);
  clear_counter(out);
  cuda::SignsArguments with{};
  with.rows = rows_of(job.ranges, kTile);
  with.out = {payload<std::uint8_t>(out), integer(apart)};
  with.draw = job.draw;
  with.ties = job.ties;
  with.bad.count = counter(out);
  with.recorded = job.recorded;
  Counter* bad = nullptr;
  const Source* source = &job.source;
  if (const auto* recorded = std::get_if<RecordedSource>(source)) {
    with.recorded = recorded->values;
    source = recorded->of;
  }
  const auto bad_of = [&](const BadBlocks& blocks) {
    with.bad.piece = blocks.block != 0 && kTile % blocks.block == 0 ? integer(blocks.block) : 0;
    bad = blocks.count;
  };
  if (const auto* one = std::get_if<SignMoments>(source)) {
    with.g = one->g;
    with.m = one->m;
    with.b = one->b;
    with.moments = one->step;
    bad_of(one->bad);
  } else if (const auto* one = std::get_if<LionVotes>(source)) {
    with.g = one->g;
    with.m = one->m;
    with.votes = one->step;
    with.ties = one->ties;
    bad_of(one->bad);
  } else if (const auto* one = std::get_if<Values>(source)) {
    with.g = one->values;
    with.checked = one->checked;
  } else {
    refuse("a source of the caller's own");
  }
  if (job.wanted) {
    std::memcpy(out.pinned + kHead + wanted_at, job.wanted, wanted);
    check(gpu_->driver().to_device(out.device + kHead + wanted_at, out.pinned + kHead + wanted_at,
                                   wanted, stream_),
          "a copy to the GPU");
    with.wanted = payload<std::uint8_t>(out, wanted_at);
  }
  launch(kernel, cuda::encode_grid(with.rows, static_cast<unsigned>(rows)), with);
  if (!job.out) return enqueue(out, bad);
  download(out, apart * rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const char* from = out.pinned + kHead + i * apart;
    std::memcpy(static_cast<char*>(job.out) + i * job.stride, from, job.bits);
    std::memcpy(static_cast<char*>(job.active) + i * job.stride, from + job.bits, active);
  }
  if (bad) bad->fetch_add(counted(out), std::memory_order_relaxed);
}

// Whole numbers of what is else drawn or voted: in exact exchanges. The bits stay where they are.
const float* CudaDevice::ratios(const Source& source, std::span<const Range> ranges) {
  float* const to = scratch(static_cast<std::size_t>(rows_of(ranges, 1).end));
  signs(std::holds_alternative<LionVotes>(source) ? "cast_votes" : "draw_signs",
        {.ranges = ranges,
         .source = source,
         .bits = 8 * wire::words(ranges.front().capacity),
         .out = nullptr,
         .active = nullptr,
         .recorded = to});
  return to;
}

void CudaDevice::share(const ShareSigns& job) {
  signs("share_signs", {{&job.range, 1}, job.source, 2 * job.range.capacity, job.out, job.active});
}

void CudaDevice::draw(const DrawSigns& first, std::span<const Range> ranges, std::size_t stride) {
  if (std::holds_alternative<NodeSigns>(first.source)) return host_.draw(first, ranges, stride);
  if (ranges.size() > 1 && !lie_regularly(ranges)) return Device::draw(first, ranges, stride);
  signs("draw_signs", {.ranges = ranges,
                       .source = first.source,
                       .bits = 8 * wire::words(first.range.capacity),
                       .out = first.bits,
                       .active = first.active,
                       .stride = stride,
                       .draw = first.draw,
                       .wanted = first.wanted});
}

void CudaDevice::vote(const CastVotes& first, std::span<const Range> ranges, std::size_t stride) {
  if (ranges.size() > 1 && !lie_regularly(ranges)) return Device::vote(first, ranges, stride);
  signs("cast_votes", {.ranges = ranges,
                       .source = first.source,
                       .bits = 8 * wire::words(first.range.capacity),
                       .out = first.bits,
                       .active = first.active,
                       .stride = stride,
                       .ties = first.ties});
}

}  // namespace laconic::inline device
