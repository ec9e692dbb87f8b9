#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "laconic/transport/wrapper.h"

namespace laconic {

// A broken engine: delivers blocks without their last byte while `*armed`, which the caller keeps
// alive. What it delivers lies in memory of exactly that size, for sanitizers.
class ShortTransport final : public Wrapper {
 public:
  template <typename Inner>
  ShortTransport(Inner&& inner, const bool* armed)
      : Wrapper(std::forward<Inner>(inner)), armed_(armed) {}

  Blocks arrive() override {
    const Blocks blocks = inner().arrive();
    if (!*armed_ || blocks.block_size() == 0) return blocks;
    const std::size_t left = blocks.block_size() - 1;
    copies_.clear();
    first_.clear();
    for (int r = 0; r < size(); ++r) {
      copies_.push_back(std::make_unique<std::byte[]>(left));
      std::memcpy(copies_.back().get(), blocks[r].data(), left);
      first_.push_back(copies_.back().get());
    }
    return {first_.data(), left};
  }

 private:
  std::unique_ptr<Transport> wrap(Part part) override {
    return std::make_unique<ShortTransport>(std::move(part), armed_);
  }

  const bool* armed_;
  std::vector<std::unique_ptr<std::byte[]>> copies_;
  std::vector<const std::byte*> first_;
};

}  // namespace laconic
