#include "laconic/optim/tensors.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace laconic::inline optim {

Tensors::Tensors(const Model& model, std::span<const Bucket> buckets) : buckets_(buckets) {
  std::vector<std::size_t> ends = {0, model.weights.size()};
  std::size_t end_of_group = 0;
  for (const Group& group : model.groups) ends.push_back(end_of_group += group.elements);
  for (const NamedRange& range : model.ranges) {
    ends.push_back(range.begin);
    ends.push_back(range.begin + range.count);
  }
  std::ranges::sort(ends);
  for (std::size_t i = 1; i < ends.size(); ++i)
    if (ends[i - 1] < ends[i]) add(model, ends[i - 1], ends[i]);
  x_.resize(pieces_.size());
  u_.resize(pieces_.size());
  squares_.resize(2 * (model.shards ? model.ranges.size() : tensors_.size()));
}

void Tensors::add(const Model& model, std::size_t begin, std::size_t end) {
  Tensor tensor{.range = 0,
                .at = 0,
                .first_part = parts_.size(),
                .parts = 0,
                .first_piece = pieces_.size(),
                .pieces = 0};
  while ((model.may_rest || model.shards) &&
         begin >= model.ranges[tensor.range].begin + model.ranges[tensor.range].count)
    ++tensor.range;
  tensor.at = model.shards ? tensor.range : tensors_.size();
  auto bucket = std::ranges::upper_bound(buckets_, begin, {}, &Bucket::begin) - 1;
  for (std::size_t at = begin; at < end; ++bucket) {
    const std::size_t to = std::min(end, bucket->begin + bucket->x.size());
    parts_.push_back({.begin = at - bucket->begin, .count = to - at});
    bucket_of_.push_back(static_cast<std::size_t>(bucket - buckets_.begin()));
    at = to;
  }
  tensor.parts = parts_.size() - tensor.first_part;
  add_pieces(tensor);
  tensor.pieces = pieces_.size() - tensor.first_piece;
  tensors_.push_back(tensor);
}

// Pieces are counted from the tensor's first element, wherever buckets begin.
void Tensors::add_pieces(const Tensor& tensor) {
  std::size_t missing = 0;  // of the last piece
  for (std::size_t p = tensor.first_part; p < tensor.first_part + tensor.parts; ++p) {
    const TensorPart& part = parts_[p];
    for (std::size_t at = 0; at < part.count;) {
      if (missing == 0) {
        pieces_.push_back({.part = p, .begin = part.begin + at, .count = 0});
        missing = kTile;
      }
      const std::size_t count = std::min(missing, part.count - at);
      pieces_.back().count += count;
      missing -= count;
      at += count;
    }
  }
}

void Tensors::sum_pieces(Shards& shards) {
  std::ranges::fill(squares_, 0.0);
  for (const Tensor& tensor : tensors_) {
    if (!shards.counts(buckets_[bucket_of_[tensor.first_part]].group)) continue;
    const auto sum = [&](const std::vector<double>& pieces) {
      const auto first = pieces.begin() + static_cast<std::ptrdiff_t>(tensor.first_piece);
      return std::accumulate(first, first + static_cast<std::ptrdiff_t>(tensor.pieces), 0.0);
    };
    squares_[2 * tensor.at] += sum(x_);
    squares_[2 * tensor.at + 1] += sum(u_);
  }
  shards.sum(squares_);
}

double Tensors::trust_of(const Tensor& tensor) const {
  const double x = std::sqrt(squares_[2 * tensor.at]), u = std::sqrt(squares_[2 * tensor.at + 1]);
  if (!(x > 0) || !(u > 0) || std::isnan(x / u)) return 1;
  const OptimizerConfig& config = *buckets_.front().config;
  return std::clamp(x / u, config.min_trust, config.max_trust);
}

void Tensors::move(const Step& step, std::span<const std::unique_ptr<Rule>> rules, const Rest* rest,
                   Shards& shards) {
  for (const Tensor& tensor : tensors_)
    for (std::size_t p = tensor.first_part; p < tensor.first_part + tensor.parts; ++p)
      parts_[p] = rules[bucket_of_[p]]->part_of(step, rest ? rest->rested(tensor.range) : 0,
                                                parts_[p].begin, parts_[p].count);
  Device& device = *buckets_.front().device;
  device.run(TensorNorms{parts_, pieces_, x_.data(), u_.data()});
  sum_pieces(shards);
  for (const Tensor& tensor : tensors_) {
    const double trust = rest && rest->rests(tensor.range) ? 0 : trust_of(tensor);
    for (std::size_t p = tensor.first_part; p < tensor.first_part + tensor.parts; ++p)
      parts_[p].rate = static_cast<float>(buckets_[bucket_of_[p]].now->lr * trust);
  }
  device.run(TensorApply{parts_, pieces_});
  for (const auto& rule : rules) rule->moved();
}

}  // namespace laconic::inline optim
