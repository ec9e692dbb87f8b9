#include <algorithm>
#include <cstring>

#include "laconic/device/cuda/cuda_device.h"
#include "laconic/device/cuda/launch-inl.h"

namespace laconic::inline device {
namespace {

cuda::Floors floors_of(const FloorTable& table) {
  return {.begins = reinterpret_cast<const std::int64_t*>(table.begins_there),
          .floors = table.floors.data(),
          .blocks = integer(table.begins.size()),
          .elements = integer(table.elements)};
}

cuda::BadPieces pieces_of(const BadBlocks& bad, cuda::Counter* count) {
  return {count, bad.block == 0 || bad.block > kTile ? 0 : integer(bad.block)};
}

}  // namespace

void CudaDevice::take(const Sink& sink, const cuda::Decoding& decoding, std::size_t rows,
                      Slot& slot, std::size_t used, float* recorded) {
  cuda::Decoding of = decoding;
  of.recorded = recorded;
  const cuda::Grid grid = cuda::decode_grid(of.rows, static_cast<unsigned>(rows));
  cuda::Counter* const bad = counter(slot);
  Counter* counts_for = nullptr;
  if (const auto* to = std::get_if<RecordedSink>(&sink)) {
    return take(*to->of, decoding, rows, slot, used, to->values);
  } else if (const auto* to = std::get_if<Store>(&sink)) {
    launch("decode_store", grid, cuda::StoreArguments{of, to->to});
  } else if (const auto* to = std::get_if<SgdmUpdate>(&sink)) {
    launch("decode_sgdm", grid,
           cuda::SgdmArguments{of, to->m, to->x, pieces_of(to->bad, bad), to->step});
    counts_for = to->bad.count;
  } else if (const auto* to = std::get_if<LionUpdate>(&sink)) {
    launch("decode_lion", grid,
           cuda::LionArguments{of, to->m, to->x, pieces_of(to->bad, bad), to->step});
    counts_for = to->bad.count;
  } else if (const auto* to = std::get_if<AdamWUpdate>(&sink)) {
    cuda::AdamWArguments with{
        of, to->m, to->v, to->x, nullptr, 0, pieces_of(to->bad, bad), to->parts.front().step};
    if (to->parts.size() > 1) {
      const std::size_t at = (used + 63) / 64 * 64;
      auto* parts = reinterpret_cast<cuda::AdamPart*>(slot.pinned + kHead + at);
      for (std::size_t i = 0; i < to->parts.size(); ++i)
        parts[i] = {integer(to->parts[i].begin), integer(to->parts[i].count), to->parts[i].step};
      check(gpu_->driver().to_device(slot.device + kHead + at, parts,
                                     to->parts.size() * sizeof *parts, stream_),
            "a copy to the GPU");
      with.parts = payload<cuda::AdamPart>(slot, at);
      with.part_count = integer(to->parts.size());
    }
    launch("decode_adamw", grid, with);
    counts_for = to->bad.count;
  } else if (const auto* to = std::get_if<MomentsUpdate>(&sink)) {
    launch("decode_moments", grid,
           cuda::MomentsArguments{of, to->m, to->v, to->left, pieces_of(to->bad, bad), to->step});
    counts_for = to->bad.count;
  } else if (const auto* to = std::get_if<MomentumStore>(&sink)) {
    launch("decode_momentum_store", grid, cuda::MomentumStoreArguments{of, to->m, to->v});
  } else if (const auto* to = std::get_if<MomentumApply>(&sink)) {
    launch("decode_momentum_apply", grid,
           cuda::MomentumApplyArguments{of, to->m, to->v, to->x, floors_of(to->floors), to->step});
  } else if (const auto* to = std::get_if<PendingSync>(&sink)) {
    launch("decode_pending_sync", grid,
           cuda::PendingSyncArguments{of, to->m, to->v, to->x_sync, to->x, floors_of(to->floors),
                                      to->step, to->inverse_gain});
  } else if (const auto* to = std::get_if<SignUpdate>(&sink)) {
    launch("decode_sign_update", grid, cuda::SignUpdateArguments{of, to->x, to->lr, to->decay});
  } else if (const auto* to = std::get_if<OuterUpdate>(&sink)) {
    launch("decode_outer", grid,
           cuda::OuterArguments{of, to->momentum, to->snapshot, to->x_sync, to->x, to->step});
  } else {
    fail(Code::kUnavailable,
         "a sink of the caller's own runs on the host only: train with device = "
         "cpu");
  }
  enqueue(slot, counts_for);
}

namespace {

// Bytes that a sink puts after the message.
std::size_t extra_of(const Sink& sink) {
  if (const auto* to = std::get_if<RecordedSink>(&sink)) return extra_of(*to->of);
  const auto* to = std::get_if<AdamWUpdate>(&sink);
  return to && to->parts.size() > 1 ? 64 + to->parts.size() * sizeof(cuda::AdamPart) : 0;
}

}  // namespace

void CudaDevice::decode(const DecodeMessage& first, std::span<const Range> ranges,
                        std::span<const std::byte* const> messages) {
  if (ranges.size() > 1 && !lie_regularly(ranges)) return Device::decode(first, ranges, messages);
  const Range& range = ranges.front();
  if (range.count == 0) return;
  const cuda::Gpu::Current current(*gpu_);
  const CodecShape shape = shape_of(*first.codec);
  const std::size_t header = first.codec->form() ? wire::kHeaderSize : 0;
  const std::size_t bytes = first.codec->message_size(range.capacity) - header;
  const std::size_t apart = padded(bytes), all = apart * ranges.size();
  Slot& in = slot(all + extra_of(first.sink));
  for (std::size_t i = 0; i < ranges.size(); ++i)
    std::memcpy(in.pinned + kHead + i * apart, messages[i] + header, bytes);
  upload(in, all);
  const std::size_t item = first.block == 0
                               ? range.count
                               : static_cast<std::size_t>(cuda::item_of(integer(first.block)));
  cuda::Decoding of{};
  of.rows = rows_of(ranges, item);
  of.from = {payload<std::uint8_t>(in), integer(apart)};
  of.block = integer(first.codec->block() == 0 ? range.capacity : first.codec->block());
  of.codec = shape.kind;
  of.bits = shape.bits;
  of.slots = shape.slots;
  take(first.sink, of, ranges.size(), in, all);
}

void CudaDevice::read(const ReadSigns& first, std::span<const Range> ranges,
                      std::span<const std::uint8_t* const> bits) {
  if (ranges.size() > 1 && !lie_regularly(ranges)) return Device::read(first, ranges, bits);
  const Range& range = ranges.front();
  if (range.count == 0) return;
  const cuda::Gpu::Current current(*gpu_);
  const auto planes = static_cast<std::size_t>(std::max(first.planes, 1));
  const std::size_t words = 8 * planes * wire::words(range.capacity);
  const std::size_t extras =
      first.planes > 0 ? 2 * wire::words(range.capacity) : wire::activity_size(range.capacity);
  const std::size_t apart = padded(words + extras), all = apart * ranges.size();
  Slot& in = slot(all + extra_of(first.sink));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    char* to = in.pinned + kHead + i * apart;
    std::memcpy(to, bits[i], words);
    std::memcpy(to + words, bits[i] + (first.extras - first.bits), extras);
  }
  upload(in, all);
  cuda::Decoding of{};
  of.rows = rows_of(ranges, kTile);
  of.from = {payload<std::uint8_t>(in), integer(apart)};
  of.block = integer(range.capacity);
  of.codec = first.planes > 0 ? cuda::CodecKind::kCounts : cuda::CodecKind::kSigns;
  of.bits = first.planes;
  take(first.sink, of, ranges.size(), in, all);
}

void CudaDevice::run(const Source& source, const Sink& sink, std::size_t elements, float* spent) {
  if (elements == 0) return;
  const cuda::Gpu::Current current(*gpu_);
  const Range range{.begin = 0, .count = elements, .capacity = elements};
  const Given from = given(source, {&range, 1});
  const auto* values = reinterpret_cast<const std::uint8_t*>(from.source.values);
  const bool plain = from.source.kind == cuda::SourceKind::kValues && !from.recorded;
  Slot& in = slot(extra_of(sink));
  clear_counter(in);
  if (!plain) {
    Slot& counts = slot(0);
    clear_counter(counts);
    cuda::DenseArguments with = dense(from, {&range, 1}, kTile);
    values = reinterpret_cast<const std::uint8_t*>(scratch(elements));
    with.out = {const_cast<std::uint8_t*>(values), 0};
    with.bad = counter(counts);
    launch("encode_dense", cuda::encode_grid(with.rows, 1), with);
    enqueue(counts, from.exact_bad);
  }
  cuda::Decoding of{};
  of.rows = rows_of({&range, 1}, kTile);
  of.from = {values, 0};
  of.block = integer(elements);
  of.codec = cuda::CodecKind::kFp32;
  take(sink, of, 1, in, 0);
  if (spent) clear(spent, 4 * elements);
}

void CudaDevice::run(const Pass& pass) {
  const cuda::Gpu::Current current(*gpu_);
  std::visit([this](const auto& one) { run_one(one); }, pass);
}

void CudaDevice::run_one(const LocalStep& pass) {
  Slot& counts = slot(0);
  clear_counter(counts);
  launch("local_step", cuda::block_grid(integer(pass.floors.begins.size())),
         cuda::LocalStepArguments{pass.g, pass.m, pass.v, pass.pending, pass.x, counter(counts),
                                  floors_of(pass.floors), pass.step, pass.shrink});
  enqueue(counts, pass.bad);
}

void CudaDevice::run_one(const MomentsApply& pass) {
  launch("moments_apply", cuda::block_grid(integer(pass.floors.begins.size())),
         cuda::MomentsApplyArguments{pass.m, pass.v, pass.x, pass.copy, pass.left,
                                     floors_of(pass.floors), pass.step});
}

void CudaDevice::run_one(const UpdateFloors& pass) {
  Slot& counts = slot(0);
  clear_counter(counts);
  const cuda::Floors floors = floors_of(pass.floors);
  launch("update_floors", cuda::block_grid(floors.blocks),
         cuda::FloorsArguments{pass.v, pass.floors.floors.data(), floors.begins, counter(counts),
                               floors.blocks, floors.elements, pass.factor, pass.on, pass.in_parts,
                               pass.freeze});
  download(counts, 0);
  *pass.dead = counted(counts);
}

void CudaDevice::run_one(const TileSums& pass) {
  const std::size_t tiles = (pass.elements + kTile - 1) / kTile;
  Slot& out = slot(5 * tiles);
  clear_counter(out);
  launch("measure", cuda::tile_grid(integer(pass.elements)),
         cuda::MeasureArguments{pass.values, payload<float>(out),
                                payload<std::uint8_t>(out, 4 * tiles), integer(pass.elements),
                                pass.norm});
  download(out, 5 * tiles);
  std::memcpy(pass.sums, out.pinned + kHead, 4 * tiles);
  for (std::size_t i = 0; pass.checked && i < tiles; ++i)
    if (out.pinned[kHead + 4 * tiles + i] == 0) pass.sums[i] = -1;
}

void CudaDevice::run_one(const Scaling& pass) {
  launch("scale", cuda::tile_grid(integer(pass.elements)),
         cuda::ScaleArguments{pass.values, integer(pass.elements), pass.factor});
}

void CudaDevice::run_one(const Filling& pass) {
  if (pass.elements == 0) return;
  unsigned bits = 0;
  std::memcpy(&bits, &pass.value, sizeof bits);
  check(gpu_->driver().set_words(reinterpret_cast<cuda::Address>(pass.values), bits, pass.elements,
                                 stream_),
        "filling memory");
}

// Parts and pieces go to the device with every call: a few hundred bytes per tensor.
template <typename Sum>
void CudaDevice::run_tensors(std::string_view kernel, std::span<const TensorPart> parts,
                             std::span<const TensorPiece> pieces, Sum* sums) {
  const std::size_t pieces_at = parts.size() * sizeof(cuda::TensorPart);
  const std::size_t sums_at = pieces_at + pieces.size() * sizeof(cuda::TensorPiece);
  const std::size_t bytes = sums_at + (sums ? 8 * pieces.size() : 0);
  Slot& in = slot(bytes);
  auto* to = reinterpret_cast<cuda::TensorPart*>(in.pinned + kHead);
  for (const TensorPart& one : parts) {
    const cuda::Floors floors = one.floors.begins.empty() ? cuda::Floors{} : floors_of(one.floors);
    *to++ = {integer(one.begin),
             integer(one.count),
             one.m,
             one.v,
             one.x,
             one.left,
             floors,
             one.step,
             one.rate};
  }
  auto* piece = reinterpret_cast<cuda::TensorPiece*>(in.pinned + kHead + pieces_at);
  for (const TensorPiece& one : pieces)
    *piece++ = {integer(one.part), integer(one.begin), integer(one.count)};
  upload(in, sums_at);
  auto* x = sums ? payload<float>(in, sums_at) : nullptr;
  launch(kernel, cuda::block_grid(integer(pieces.size())),
         cuda::TensorArguments{payload<cuda::TensorPart>(in),
                               payload<cuda::TensorPiece>(in, pieces_at), x,
                               sums ? x + pieces.size() : nullptr});
  if (!sums) return enqueue(in, nullptr);
  download(in, bytes);
  std::memcpy(sums, in.pinned + kHead + sums_at, 8 * pieces.size());
}

void CudaDevice::run_one(const TensorNorms& pass) {
  std::vector<float> sums(2 * pass.pieces.size());
  run_tensors("tensor_norms", pass.parts, pass.pieces, sums.data());
  for (std::size_t i = 0; i < pass.pieces.size(); ++i) {
    pass.x[i] = static_cast<double>(sums[i]);
    pass.u[i] = static_cast<double>(sums[pass.pieces.size() + i]);
  }
}

void CudaDevice::run_one(const TensorApply& pass) {
  run_tensors<float>("tensor_apply", pass.parts, pass.pieces, nullptr);
}

}  // namespace laconic::inline device
