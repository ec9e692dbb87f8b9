#pragma once

#include <span>
#include <string>
#include <vector>

#include "laconic/optim/optimizer.h"

namespace laconic::inline optim {

// What the ranks that hold the other parts of one model decide together (Model::shards), in one
// small round each. Sums go in the order of ranks, so they are equal on all; a part that several
// ranks hold counts once. Without shards nothing is sent.
class Shards {
 public:
  // `model` is completed, and outlives this. Collective: the ranks compare their groups. Throws
  // Error(kInvalidArgument) with both values.
  explicit Shards(const Model& model);

  bool any() const noexcept { return transport_ != nullptr; }
  // This rank counts what it holds of the group.
  bool counts(const Group& group) const;
  // Replaces each by its sum over the shards.
  void sum(std::span<double> values);
  double sum(double value);
  bool any_of(bool here);
  // The strongest wish of any shard.
  Finish strongest(Finish wish);
  // Of the random numbers of bucket `index`, the `nth` of group `group`: equal where the same part
  // is held, and different elsewhere.
  std::uint32_t key(std::size_t group, int nth, int index) const;
  // Parts that several ranks hold must be byte-equal: compares the hashes of all ranges, one each.
  // Error(kMismatch) on all ranks, with the range and the ranks.
  void compare(std::int64_t step, std::span<const std::uint64_t> hashes);

 private:
  const Model& model_;
  Transport* transport_;
  std::vector<int> holders_;  // of each range, rank by rank
  std::vector<double> sums_;
  std::vector<std::uint64_t> hashes_;
};

}  // namespace laconic::inline optim
