#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "laconic/collective/mean.h"

namespace laconic::testing {

// The mean of all ranks with a lossy codec, in one place: plain loops after the specification, none
// of the library's code.
class MeanSimulation {
 public:
  // Of signs; only where blocks begin, for any other codec.
  MeanSimulation(int nodes, int per_node, std::size_t elements, std::size_t block,
                 kernels::Norm norm);
  // Of the config's codec and feedback.
  MeanSimulation(int nodes, int per_node, const MeanConfig& config);

  // inputs[r] is what rank r gives. Where live is 0 (empty: nowhere) elements take no part.
  std::vector<float> exchange(const std::vector<std::vector<float>>& inputs,
                              std::span<const float> live = {});

  struct Block {
    std::size_t begin, count;
  };
  // The elements that share a scale on the way up, in order.
  const std::vector<Block>& blocks() const { return blocks_; }
  // The node's worker residual: rank (node, l) holds shard l of it.
  std::vector<float>& worker(int node) { return worker_[static_cast<std::size_t>(node)]; }
  const std::vector<float>& worker(int node) const {
    return worker_[static_cast<std::size_t>(node)];
  }
  const std::vector<float>& server() const { return server_; }
  Block shard(int local) const;

 private:
  std::vector<Block> blocks_of(std::size_t length) const;
  // Codes all blocks of p: p becomes C(p), e what the feedback makes of p - C(p).
  void code(const std::string& codec, Feedback feedback, std::span<const float> live,
            std::vector<float>& p, std::vector<float>& e) const;
  void code_signs(const Block& block, std::span<const float> live, std::vector<float>& p) const;
  void code_integers(const Block& block, std::span<const float> live, int bits,
                     std::vector<float>& p) const;
  void code_largest(const Block& block, std::span<const float> live, std::vector<float>& p) const;

  std::size_t nodes_, per_node_, elements_;
  MeanConfig config_;
  int exchanges_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::vector<float>> worker_;
  std::vector<float> server_;
};

}  // namespace laconic::testing
