#include "laconic/optim/checks.h"

#include <algorithm>
#include <cmath>

#include "laconic/core/error.h"
#include "laconic/core/hash.h"
#include "laconic/optim/method.h"
#include "laconic/transport/agree.h"

namespace laconic::inline optim {
namespace {

void check_ranges_cover(const Model& model) {
  std::size_t covered = 0;
  for (const NamedRange& range : model.ranges) {
    if (range.begin != covered)
      fail(Code::kInvalidArgument,
           "range {} begins at {} where {} is expected: ranges that may rest or are watched follow "
           "each other",
           range.name, range.begin, covered);
    covered += range.count;
  }
  if (covered != model.weights.size())
    fail(Code::kInvalidArgument,
         "the ranges cover {} weights of {}: those that may rest or are watched cover all", covered,
         model.weights.size());
}

}  // namespace

Model completed(Model model, const OptimizerConfig& config) {
  const bool needs_gradient = config.inner != kNoInner || !method_named(config.algorithm).spacing;
  if (model.weights.size() != model.gradient.size() && (needs_gradient || !model.gradient.empty()))
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
  if (model.may_rest || model.watched || model.shards) check_ranges_cover(model);
  return model;
}

void agree_on_setup(Transport& transport, const OptimizerConfig& config, const Model& model) {
  std::vector<std::string> mine = {
      fmt::format("{} weights", model.weights.size()),
      fmt::format("{} groups", model.groups.size()),
      fmt::format("{} ranges that may rest", model.may_rest ? model.ranges.size() : 0),
      model.deferred ? "deferred steps" : "steps at once"};
  for (const Group& group : model.groups)
    mine.push_back(fmt::format("group {} ({} weights, lr factor {}, weight decay {}, {})",
                               group.name, group.elements, group.lr_factor, group.weight_decay,
                               group.compress ? "compressed" : "exact"));
  agree(transport, mine, "build the same model with the same groups on every rank");
  mine.clear();
  for (const auto& [field, text] : to_text(config))
    if (field != "threads" && field != "device")
      mine.push_back(fmt::format("{} = {}", field, text));
  agree(transport, mine, "pass the same configuration on every rank");
}

void agree_on_first_weights(Transport& transport, std::span<const float> weights) {
  const std::string mine =
      fmt::format("first weights of hash {:016x}", hash64(std::as_bytes(weights)));
  agree(transport, {&mine, 1}, "start all ranks from the same weights, or broadcast them");
}

void ReplicaCheck::after(std::int64_t step, Transport& transport, Shards& shards,
                         FunctionRef<std::span<const float>()> weights) {
  if (every_ == 0 || step - last_ < every_) return;
  last_ = step;
  const std::span<const float> now = weights();
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    const NamedRange& range = model_.ranges[i];
    mine_[i] = hash64(std::as_bytes(now.subspan(range.begin, range.count)));
  }
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
  shards.compare(step, mine_);
}

WriteWatch::WriteWatch(const Model& model, Pool& pool) : pool_(pool) {
  constexpr std::size_t kPiece = 1 << 16;
  if (!model.watched) return;
  for (const NamedRange& range : model.ranges)
    for (std::size_t at = 0; at < range.count; at += kPiece)
      pieces_.push_back({&range, range.begin + at, std::min(kPiece, range.count - at)});
}

void WriteWatch::look(std::span<const float> weights) {
  pool_.run(pieces_.size(), [&](std::size_t i, int) {
    Piece& piece = pieces_[i];
    piece.found = hash64(std::as_bytes(weights.subspan(piece.begin, piece.count)));
  });
}

void WriteWatch::note(std::span<const float> weights) {
  look(weights);
  for (Piece& piece : pieces_) piece.noted = piece.found;
}

const NamedRange* WriteWatch::written(std::span<const float> weights) {
  look(weights);
  for (const Piece& piece : pieces_)
    if (piece.found != piece.noted) return piece.range;
  return nullptr;
}

void refuse_write(const NamedRange& written, std::int64_t step, std::string_view method) {
  fail(Code::kInvalidArgument,
       "{} was written to after step {}, while this rank was ahead of the last sync; {} goes on "
       "from the synced weights and would undo it: call synchronize() before you write, and load "
       "the model's state before the optimizer's",
       written.name, step, method);
}

}  // namespace laconic::inline optim
