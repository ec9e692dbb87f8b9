#include "tests/checkpoint/fake_optimizer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

namespace laconic::testing {
namespace {

std::size_t ceil_div(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

}  // namespace

float sample(const std::string& name, int rank, std::size_t k) {
  const auto salt =
      std::accumulate(name.begin(), name.end(), std::size_t{0},
                      [](std::size_t sum, char c) { return sum * 3 + std::size_t(c); });
  return static_cast<float>((k * 37 + salt + 101 * static_cast<std::size_t>(rank)) % 1009) / 16.0F -
         30.0F;
}

FakeOptimizer::FakeOptimizer(Transport& transport, OptimizerConfig config)
    : settings(config), transport_(transport) {
  if (settings.variance_kappa == kDefault) settings.variance_kappa = 16;  // completed
  model_ = {weights_, gradient_, {{"matrices", 600}, {"biases", 400, 1, 0, false}}, {}};
  const auto rank = static_cast<std::size_t>(transport.rank());
  const auto size = static_cast<std::size_t>(transport.size());
  for (int b = 0; b < buckets(); ++b) {
    const std::size_t count = bucket(b).count;
    const std::string prefix = "bucket" + std::to_string(b) + "/";
    add(prefix + "v", Spread::kSame, 0, count);
    add(prefix + "m", Spread::kMean, 0, count);
    const auto local = static_cast<std::size_t>(std::max(settings.ranks_per_node, 1));
    const std::size_t shard = ceil_div(count, local), begin = shard * (rank % local);
    add(prefix + "pending", Spread::kMean, begin, std::min(shard, count - begin));
    const std::size_t chunk = ceil_div(count, size), at = std::min(chunk * rank, count);
    add(prefix + "server", Spread::kOwned, at, std::min(chunk, count - at));
  }
}

void FakeOptimizer::add(const std::string& name, Spread spread, std::size_t begin,
                        std::size_t count) {
  vectors_.push_back({name, spread, begin, std::vector<float>(count)});
}

void FakeOptimizer::fill(std::int64_t step, bool inside_interval) {
  stats_.step = step;
  const int rank = transport_.rank();
  for (Vector& vector : vectors_)
    for (std::size_t i = 0; i < vector.values.size(); ++i)
      vector.values[i] =
          sample(vector.name, vector.spread == Spread::kMean ? rank : 0, vector.begin + i);
  for (std::size_t i = 0; i < kElements; ++i) {
    synced_[i] = sample("synced", 0, i);
    weights_[i] = inside_interval ? sample("weights", rank, i) : synced_[i];
  }
  scalars_ = {static_cast<double>(step), 0.1, -0.0, std::numeric_limits<double>::quiet_NaN()};
}

std::vector<std::byte> FakeOptimizer::bytes() const {
  std::vector<std::byte> all;
  const auto append = [&](std::span<const std::byte> bytes) {
    all.insert(all.end(), bytes.begin(), bytes.end());
  };
  for (const State& state : states()) {
    append(std::as_bytes(state.values));
    append(std::as_bytes(state.scalars));
  }
  append(std::as_bytes(std::span(weights_)));
  return all;
}

void FakeOptimizer::move_state(const std::string& name, std::size_t begin) {
  for (Vector& vector : vectors_)
    if (vector.name == name) vector.begin = begin;
}

NamedRange FakeOptimizer::bucket(int index) const {
  static const std::vector<NamedRange> all = {
      {"bucket0", 0, 300}, {"bucket1", 300, 300}, {"bucket2", 600, 400}};
  return all[static_cast<std::size_t>(index)];
}

void FakeOptimizer::synced_weights(std::span<float> out) const {
  std::copy(synced_.begin(), synced_.end(), out.begin());
}

std::vector<State> FakeOptimizer::states() const {
  std::vector<State> all;
  for (Vector& vector : vectors_)
    all.push_back({vector.name, vector.values, vector.spread, vector.begin, {}});
  all.push_back({"counters", {}, Spread::kScalar, 0, scalars_});
  return all;
}

void FakeOptimizer::redistribute(int bucket,
                                 const std::map<std::string, std::vector<float>>& whole) {
  if (static_cast<std::size_t>(bucket) == redistributed.size()) redistributed.push_back(whole);
}

void FakeOptimizer::restored() {
  ++restored_calls;
  stats_.step = static_cast<std::int64_t>(scalars_[0]);
}

}  // namespace laconic::testing
