#include "laconic/transport/transport.h"

#include <cstring>
#include <new>

#include "laconic/core/error.h"
#include "laconic/transport/engine.h"

namespace laconic::inline transport {
namespace {

void collect(Transport& transport, const Exchange& exchange, std::span<const std::byte> in,
             std::size_t block, std::span<std::byte> out) {
  const std::size_t wanted = block * static_cast<std::size_t>(transport.size());
  if (out.size() != wanted)
    fail(Code::kInvalidArgument, "`out` has {} bytes, {} ranks of {} bytes need {}", out.size(),
         transport.size(), block, wanted);
  transport.post(exchange, in);
  const Blocks blocks = transport.arrive();
  check_block_size(blocks, block);
  if (block != 0)
    for (int r = 0; r < transport.size(); ++r)
      std::memcpy(out.data() + static_cast<std::size_t>(r) * block, blocks[r].data(), block);
  transport.retire();
}

}  // namespace

void Transport::keep(Buffer<std::byte> memory) noexcept {
  new (std::nothrow) Buffer<std::byte>(std::move(memory));
}

std::chrono::milliseconds Transport::timeout() const noexcept { return kDefaultTimeout; }

void Transport::all_to_all(std::span<const std::byte> in, std::span<std::byte> out) {
  const auto ranks = static_cast<std::size_t>(size());
  if (in.size() % ranks != 0)
    fail(Code::kInvalidArgument, "`in` has {} bytes, which {} ranks do not divide", in.size(),
         ranks);
  collect(*this, {.kind = Kind::kAllToAll}, in, in.size() / ranks, out);
}

void Transport::all_gather(std::span<const std::byte> in, std::span<std::byte> out) {
  collect(*this, {.kind = Kind::kAllGather}, in, in.size(), out);
}

void Transport::broadcast(std::span<std::byte> bytes, int root) {
  if (root < 0 || root >= size())
    fail(Code::kInvalidArgument, "root {} is not a rank of a group of {}", root, size());
  post({.kind = Kind::kBroadcast, .root = root}, bytes);
  const Blocks blocks = arrive();
  check_block_size(blocks, bytes.size());
  if (rank() != root && !bytes.empty())
    std::memcpy(bytes.data(), blocks[root].data(), bytes.size());
  retire();
}

}  // namespace laconic::inline transport
