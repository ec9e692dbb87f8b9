#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "laconic/kernels/sign.h"

namespace laconic::testing {

// The one-bit mean of all ranks in one place: plain loops after the specification, none of the
// library's code.
class OneBitSimulation {
 public:
  OneBitSimulation(int nodes, int per_node, std::size_t elements, std::size_t block,
                   kernels::Norm norm);

  // inputs[r] is what rank r gives. Where live is 0 (empty: nowhere) elements take no part.
  std::vector<float> exchange(const std::vector<std::vector<float>>& inputs,
                              std::span<const float> live = {});

  struct Block {
    std::size_t begin, count;
  };
  // The elements that share a scale, in order.
  const std::vector<Block>& blocks() const { return blocks_; }
  // The node's worker residual: rank (node, l) holds shard l of it.
  std::vector<float>& worker(int node) { return worker_[static_cast<std::size_t>(node)]; }
  const std::vector<float>& worker(int node) const {
    return worker_[static_cast<std::size_t>(node)];
  }
  const std::vector<float>& server() const { return server_; }
  Block shard(int local) const;

 private:
  // Codes p of a block: p becomes C(p), e becomes p - C(p).
  void code(const Block& block, std::span<const float> live, std::vector<float>& p,
            std::vector<float>& e) const;

  std::size_t nodes_, per_node_, elements_, block_;
  kernels::Norm norm_;
  std::vector<Block> blocks_;
  std::vector<std::vector<float>> worker_;
  std::vector<float> server_;
};

}  // namespace laconic::testing
