#include "laconic/optim/shards.h"

#include <algorithm>

#include "laconic/core/error.h"
#include "laconic/transport/agree.h"

namespace laconic::inline optim {
namespace {

const Group& group_of(const Model& model, const NamedRange& range) {
  std::size_t end = 0, g = 0;
  while (g + 1 < model.groups.size() && (end += model.groups[g].elements) <= range.begin) ++g;
  return model.groups[g];
}

}  // namespace

Shards::Shards(const Model& model) : model_(model), transport_(model.shards) {
  if (!any()) return;
  std::vector<std::string> mine = {fmt::format("{} groups", model.groups.size()),
                                   fmt::format("{} ranges", model.ranges.size())};
  agree(*transport_, mine,
        "give the same parameters to the optimizer on every rank of the shards' mesh");
  std::vector<int> holders;
  for (const NamedRange& range : model.ranges) holders.push_back(group_of(model, range).holder);
  transport_->gather(std::span<const int>(holders), holders_);
  for (const int holder : holders_)
    if (holder < 0 || holder >= transport_->size())
      fail(Code::kInvalidArgument, "a group is held first by rank {} of {} shards", holder,
           transport_->size());
}

bool Shards::counts(const Group& group) const {
  return !any() || group.holder == transport_->rank();
}

void Shards::sum(std::span<double> values) {
  if (!any()) return;
  transport_->gather(std::span<const double>(values), sums_);
  std::ranges::fill(values, 0.0);
  for (std::size_t i = 0; i < sums_.size(); ++i) values[i % values.size()] += sums_[i];
}

double Shards::sum(double value) {
  sum({&value, 1});
  return value;
}

bool Shards::any_of(bool here) { return sum(here ? 1.0 : 0.0) > 0; }

Finish Shards::strongest(Finish wish) {
  if (!any()) return wish;
  for (const auto other : transport_->gather(static_cast<std::uint8_t>(wish)))
    wish = std::max(wish, static_cast<Finish>(other));
  return wish;
}

std::uint32_t Shards::key(std::size_t group, int nth, int index) const {
  if (!any()) return static_cast<std::uint32_t>(index);
  const auto holder = static_cast<std::uint32_t>(model_.groups[group].holder);
  return (holder << 22) ^ (static_cast<std::uint32_t>(group) << 14) ^
         static_cast<std::uint32_t>(nth);
}

void Shards::compare(std::int64_t step, std::span<const std::uint64_t> hashes) {
  if (!any()) return;
  transport_->gather(hashes, hashes_);
  for (std::size_t at = 0; at < hashes_.size(); ++at) {
    const std::size_t range = at % hashes.size();
    const auto holder = static_cast<std::size_t>(holders_[at]);
    if (hashes_[at] != hashes_[holder * hashes.size() + range])
      fail(
          Code::kMismatch,
          "shards differ after step {}: ranks {} and {} of the shards' mesh hold {}, and it is not "
          "equal; resume from the last checkpoint, and see that its gradient is the same on all "
          "ranks that hold it",
          step, holder, at / hashes.size(), model_.ranges[range].name);
  }
}

}  // namespace laconic::inline optim
