#pragma once

#include <algorithm>

#include "laconic/core/error.h"
#include "laconic/device/cuda/cuda_device.h"

// How jobs of a device become arguments of kernels, for the files of CudaDevice.
namespace laconic::inline device {

inline std::int64_t integer(std::size_t n) { return static_cast<std::int64_t>(n); }

// A row for each range. REQUIRES: lie_regularly.
inline cuda::Rows rows_of(std::span<const Range> ranges, std::size_t item) {
  const Range& first = ranges.front();
  std::size_t end = first.begin;
  for (const Range& one : ranges)
    if (one.count != 0) end = one.begin + one.count;
  return {.begin = integer(first.begin),
          .stride = ranges.size() > 1 ? integer(ranges[1].begin - first.begin) : 0,
          .end = integer(end),
          .length = integer(first.count),
          .capacity = integer(first.capacity),
          .item = integer(item)};
}

// Rows are evenly spaced, equally long but for those that the end cuts: one launch takes them all.
inline bool lie_regularly(std::span<const Range> ranges) {
  const cuda::Rows rows = rows_of(ranges, 1);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::int64_t begin = rows.begin + integer(i) * rows.stride;
    const std::int64_t count = std::clamp<std::int64_t>(rows.end - begin, 0, rows.length);
    if (count != integer(ranges[i].count) || (count != 0 && begin != integer(ranges[i].begin)) ||
        ranges[i].capacity != ranges.front().capacity)
      return false;
  }
  return true;
}

// Messages lie so far apart in memory of the device.
inline std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

struct CodecShape {
  cuda::CodecKind kind;
  std::string_view encode;  // the kernel
  int bits = 0, slots = 0;
  kernels::Norm norm = kernels::Norm::kL2;
};

inline CodecShape shape_of(const Codec& codec) {
  using cuda::CodecKind;
  const std::string_view name = codec.name();
  if (name == "fp32") return {CodecKind::kFp32, "encode_dense"};
  if (name == "bf16") return {CodecKind::kBf16, "encode_dense"};
  if (name == "sign") return {CodecKind::kSign, "encode_sign", 1, 0, codec.norm()};
  if (name == "int8") return {CodecKind::kIntegers, "encode_integers", 8};
  if (name == "int4") return {CodecKind::kIntegers, "encode_integers", 4};
  if (name == "int2") return {CodecKind::kIntegers, "encode_integers", 2};
  if (name == "top-k") {
    const std::size_t bytes = codec.message_size(wire::kTopKBlock) - wire::kHeaderSize - 4;
    return {CodecKind::kTopK, "encode_top_k", 4, static_cast<int>(bytes / 2)};
  }
  fail(Code::kUnavailable, "codec {} has no kernels for GPUs: train with device = cpu", name);
}

template <typename Arguments>
void CudaDevice::launch(std::string_view kernel, cuda::Grid grid, const Arguments& arguments) {
  if (grid.x == 0 || grid.y == 0) return;
  Arguments copy = arguments;
  void* parameters[] = {&copy};
  check(gpu_->driver().launch(gpu_->find(kernel), grid.x, grid.y, 1, cuda::kThreads, 1, 1, 0,
                              stream_, parameters, nullptr),
        std::string(kernel).c_str());
}

}  // namespace laconic::inline device
