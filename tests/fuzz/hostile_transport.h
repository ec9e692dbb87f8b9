#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "laconic/transport/transport.h"
#include "laconic/wire/chunk.h"
#include "tests/fuzz/input.h"

namespace laconic::fuzz {

// One rank of a group whose other ranks send what the input says: what this rank sends itself, with
// bytes changed, sealed anew or not. Blocks may also arrive too short.
class HostileTransport : public Transport {
 public:
  struct Group {
    Input* lies;
    bool honest = true;  // until the group was made
    int per_node = 1, splits = 0;
  };

  HostileTransport(Group& group, int rank, int size) : group_(group), rank_(rank), size_(size) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  std::uint64_t host() const noexcept override { return 1; }

  void post(const Exchange& exchange, std::span<const std::byte> in) override {
    posted_.push_back({exchange.kind, {in.begin(), in.end()}});
  }
  void retire() override {}
  void keep(Buffer<std::byte>) noexcept override {}

  Blocks arrive() override {
    const Posted posted = std::move(posted_.front());
    posted_.pop_front();
    const std::size_t parts = posted.kind == Kind::kAllToAll ? static_cast<std::size_t>(size_) : 1;
    const std::size_t size = posted.bytes.size() / parts;
    const auto own =
        posted.bytes.begin() +
        static_cast<std::ptrdiff_t>(parts == 1 ? 0 : static_cast<std::size_t>(rank_) * size);
    blocks_.assign(static_cast<std::size_t>(size_), {own, own + static_cast<std::ptrdiff_t>(size)});
    std::size_t delivered = size;
    for (int r = 0; r < size_; ++r)
      if (r != rank_ && !group_.honest)
        delivered = std::min(delivered, lie(blocks_[static_cast<std::size_t>(r)]));
    first_.clear();
    for (auto& block : blocks_) {
      if (delivered < size) block = std::vector(block.data(), block.data() + delivered);
      first_.push_back(block.data());
    }
    return {first_.data(), delivered};
  }

  std::unique_ptr<Transport> split(int) override {
    const bool inside = group_.splits++ == 0;
    const int per_node = group_.per_node;
    return std::make_unique<HostileTransport>(group_, inside ? rank_ % per_node : rank_ / per_node,
                                              inside ? per_node : size_ / per_node);
  }

 private:
  static constexpr unsigned kShort = 0xF9;

  struct Posted {
    Kind kind;
    std::vector<std::byte> bytes;
  };

  // Returns how many bytes of it arrive.
  std::size_t lie(std::vector<std::byte>& block) const {
    Input& lies = *group_.lies;
    const unsigned how = lies.byte();
    if (how % 4 == 0 || block.empty()) return block.size();
    if (how >= kShort) return lies.number() % block.size();
    const std::size_t begin = how % 4 == 1 ? std::min(wire::kHeaderSize, block.size()) : 0;
    const std::size_t at = how % 8 < 4 ? begin : begin + lies.number() % (block.size() - begin + 1);
    const std::string bytes = lies.take(std::min(lies.number(), block.size() - at));
    std::memcpy(block.data() + at, bytes.data(), bytes.size());
    if (how % 4 < 3) seal(block);
    return block.size();
  }

  // Where there is a header, the checksum fits again.
  static void seal(std::vector<std::byte>& block) {
    if (block.size() < wire::kHeaderSize || std::memcmp(block.data(), "LC\1", 3) != 0) return;
    wire::Header header{static_cast<wire::Form>(block[3]), 0, 0};
    std::memcpy(&header.elements, block.data() + 4, 4);
    std::memcpy(&header.sequence, block.data() + 8, 4);
    wire::seal(block, header);
  }

  Group& group_;
  int rank_, size_;
  std::deque<Posted> posted_;
  std::vector<std::vector<std::byte>> blocks_;
  std::vector<const std::byte*> first_;
};

}  // namespace laconic::fuzz
