#include "laconic/torch/replicas.h"

#include <c10/util/StringUtil.h>

#include <cstring>

#include "laconic/core/error.h"

namespace laconic::torch {
namespace {

using ::torch::Tensor;

// Pieces begin at multiples of this, so that they may be read as any type.
constexpr std::size_t kAlignment = 64;

std::size_t padded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Tensors one after the other, as bytes.
Buffer<std::byte> packed(std::span<const NamedTensor> tensors) {
  std::size_t total = 0;
  for (const NamedTensor& one : tensors) total += padded(one.tensor.nbytes());
  Buffer<std::byte> bytes(total);
  std::byte* to = bytes.data();
  for (const NamedTensor& one : tensors) {
    const Tensor dense = one.tensor.detach().cpu().contiguous();
    if (dense.nbytes() != 0) std::memcpy(to, dense.data_ptr(), dense.nbytes());
    to += padded(dense.nbytes());
  }
  return bytes;
}

Tensor like(const Tensor& one, std::byte* bytes) {
  return ::torch::from_blob(bytes, one.sizes(), one.scalar_type());
}

Tensor mean_of(const Tensor& one, std::byte* bytes, std::size_t stride, int ranks) {
  Tensor sum = like(one, bytes).to(::torch::kFloat64, false, true);
  for (int r = 1; r < ranks; ++r)
    sum += like(one, bytes + static_cast<std::size_t>(r) * stride).to(::torch::kFloat64);
  return sum.div_(ranks);
}

}  // namespace

std::string describe(const char* what, const NamedTensor& one) {
  return fmt::format("{} {}, {} [{}]", what, one.name, ::c10::toString(one.tensor.scalar_type()),
                     ::c10::Join(", ", one.tensor.sizes()));
}

void broadcast(Transport& world, std::span<const NamedTensor> tensors) {
  const ::torch::NoGradGuard no_grad;
  const Buffer<std::byte> bytes = packed(tensors);
  world.broadcast(bytes.span(), 0);
  if (world.rank() == 0) return;
  std::byte* from = bytes.data();
  for (const NamedTensor& one : tensors) {
    Tensor(one.tensor).copy_(like(one.tensor, from));
    from += padded(one.tensor.nbytes());
  }
}

void average(Transport& world, std::span<const NamedTensor> tensors) {
  const ::torch::NoGradGuard no_grad;
  const Buffer<std::byte> mine = packed(tensors);
  const Buffer<std::byte> all(mine.size() * static_cast<std::size_t>(world.size()));
  world.all_gather(mine.span(), all.span());
  std::byte* from = all.data();
  for (const NamedTensor& one : tensors) {
    const bool mean = one.tensor.is_floating_point();
    Tensor(one.tensor)
        .copy_(mean ? mean_of(one.tensor, from, mine.size(), world.size())
                    : like(one.tensor, from));
    from += padded(one.tensor.nbytes());
  }
}

}  // namespace laconic::torch
