#include "laconic/optim/checks.h"

#include <cmath>

#include "laconic/core/error.h"
#include "laconic/core/hash.h"

namespace laconic {
namespace {

// Throws on every rank when any differs from rank 0 in one of the named values.
void agree(Transport& transport, std::span<const std::string> names,
           std::span<const std::uint64_t> mine, const char* remedy) {
  std::vector<std::uint64_t> all;
  transport.gather(mine, all);
  for (std::size_t at = 0; at < all.size(); ++at)
    if (all[at] != all[at % mine.size()])
      fail(Code::kInvalidArgument, "rank {} and rank 0 differ in {} ({:x} and {:x}): {}",
           at / mine.size(), names[at % mine.size()], all[at], all[at % mine.size()], remedy);
}

void check_ranges_cover(const Model& model) {
  std::size_t covered = 0;
  for (const NamedRange& range : model.ranges) {
    if (range.begin != covered)
      fail(Code::kInvalidArgument,
           "range {} begins at {} where {} is expected: ranges that may rest follow each other",
           range.name, range.begin, covered);
    covered += range.count;
  }
  if (covered != model.weights.size())
    fail(Code::kInvalidArgument, "the ranges cover {} weights of {}: those that may rest cover all",
         covered, model.weights.size());
}

}  // namespace

Model completed(Model model, const OptimizerConfig& config) {
  if (model.weights.size() != model.gradient.size())
    fail(Code::kInvalidArgument, "{} weights and {} gradients: they must be equally many",
         model.weights.size(), model.gradient.size());
  if (model.groups.empty())
    model.groups = {
        {.name = "all", .elements = model.weights.size(), .weight_decay = config.weight_decay}};
  std::size_t covered = 0;
  std::vector<NamedRange> ranges;
  for (const Group& group : model.groups) {
    if (!(group.weight_decay >= 0) || !(group.lr_factor >= 0) || !std::isfinite(group.lr_factor))
      fail(Code::kInvalidArgument, "group {}: weight decay {} and lr factor {} must be at least 0",
           group.name, group.weight_decay, group.lr_factor);
    ranges.push_back({group.name, covered, group.elements});
    covered += group.elements;
  }
  if (covered != model.weights.size())
    fail(Code::kInvalidArgument, "the groups cover {} weights of {}", covered,
         model.weights.size());
  if (model.ranges.empty()) model.ranges = std::move(ranges);
  for (const NamedRange& range : model.ranges)
    if (range.begin > covered || range.count > covered - range.begin)
      fail(Code::kInvalidArgument, "range {} ends at {}, the model has {} weights", range.name,
           range.begin + range.count, covered);
  if (model.may_rest) check_ranges_cover(model);
  return model;
}

void agree_on_setup(Transport& transport, const OptimizerConfig& config, const Model& model) {
  std::vector<std::string> names = {"the number of weights", "the number of groups",
                                    "the number of ranges that may rest", "deferred steps"};
  std::vector<std::uint64_t> values = {model.weights.size(), model.groups.size(),
                                       model.may_rest ? model.ranges.size() : 0, model.deferred};
  agree(transport, names, values, "build the same model on every rank");
  for (const Group& group : model.groups) {
    const double numbers[] = {static_cast<double>(group.elements), group.lr_factor,
                              group.weight_decay, static_cast<double>(group.compress)};
    names.push_back("group " + group.name);
    values.push_back(hash64(std::as_bytes(std::span(numbers))));
  }
  for (const auto& [field, text] : to_text(config)) {
    if (field == "threads") continue;
    names.push_back(fmt::format("{} (here {})", field, text));
    values.push_back(hash64(std::as_bytes(std::span(text))));
  }
  agree(transport, names, values, "pass the same configuration on every rank");
}

void agree_on_first_weights(Transport& transport, std::span<const float> weights) {
  const std::string names[] = {"their first weights"};
  const std::uint64_t mine[] = {hash64(std::as_bytes(weights))};
  agree(transport, names, mine, "start all ranks from the same weights, or broadcast them");
}

void ReplicaCheck::compare(Transport& transport, std::int64_t step) {
  for (std::size_t i = 0; i < mine_.size(); ++i)
    mine_[i] = hash64(
        std::as_bytes(model_.weights.subspan(model_.ranges[i].begin, model_.ranges[i].count)));
  transport.gather(std::span<const std::uint64_t>(mine_), all_);
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    std::string ranks;
    for (std::size_t r = 1; r * mine_.size() < all_.size(); ++r)
      if (all_[r * mine_.size() + i] != all_[i])
        ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", r);
    if (!ranks.empty())
      fail(Code::kMismatch,
           "replicas differ after step {}: range {} of rank(s) {} is not rank 0's; resume from "
           "the last checkpoint, and look for a write to the weights outside the optimizer",
           step, model_.ranges[i].name, ranks);
  }
}

}  // namespace laconic
