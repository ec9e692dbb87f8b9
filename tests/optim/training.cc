#include "tests/optim/training.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <sstream>

#include "laconic/core/hash.h"

namespace laconic::testing {
namespace {

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.algorithm << " on " << setting.ranks
       << (setting.per_node == kFlat ? " ranks" : " ranks, nodes of 2");
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const char* algorithm : kAlgorithms)
    for (const int ranks : rank_counts()) {
      if (ranks > 4) continue;
      all.push_back({algorithm, ranks, kFlat});
      if (ranks % 2 == 0) all.push_back({algorithm, ranks, 2});
    }
  return all;
}

std::string letters_of(std::string algorithm) {
  std::erase(algorithm, '-');
  for (const char mark : {':', '='}) std::ranges::replace(algorithm, mark, '_');
  return algorithm;
}

std::string name_of(const ::testing::TestParamInfo<Setting>& info) {
  return letters_of(info.param.algorithm) + "_" + std::to_string(info.param.ranks) +
         (info.param.per_node == kFlat ? "" : "_nodes_of_2");
}

OptimizerConfig config_named(const std::string& algorithm) {
  OptimizerConfig config;
  if (const char* device = std::getenv("LACONIC_TEST_DEVICE")) config.device = device;
  std::istringstream parts(algorithm);
  std::getline(parts, config.algorithm, ':');
  for (std::string part; std::getline(parts, part, ':');)
    set(config, part.substr(0, part.find('=')), part.substr(part.find('=') + 1));
  return config;
}

OptimizerConfig short_config(std::string algorithm, int ranks_per_node) {
  OptimizerConfig config = config_named(algorithm);
  config.quant_block = 64;
  config.feedback_reset = 10;
  config.weight_decay = 0.01;
  config.freeze_step = 6;
  config.variance_freeze_step = 8;
  config.variance_kappa = 2;
  config.double_every = 4;
  config.max_interval = 4;
  config.beta2 = 0.99;
  config.every = algorithm.starts_with("streaming") ? 8 : 4;
  config.scale_block = 64;
  config.bucket_elements = 128;
  config.ranks_per_node = ranks_per_node;
  return config;
}

std::vector<Group> three_groups() {
  return {{.name = "body", .elements = 200, .weight_decay = 0.01},
          {.name = "bias", .elements = 60, .compress = false},
          {.name = "head", .elements = 100, .lr_factor = 0.5, .weight_decay = 0.1}};
}

float noise(std::int64_t step, int rank, std::size_t element) {
  const std::uint64_t key[] = {static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(rank),
                               element};
  const std::uint64_t bits = hash64(std::as_bytes(std::span(key)));
  return static_cast<float>(bits >> 40) / static_cast<float>(1 << 23) - 1;
}

Training::Training(const OptimizerConfig& config, Transport& transport, std::vector<Group> groups,
                   std::size_t elements, Model model)
    : world(transport), weights(elements), gradient(elements) {
  for (std::size_t k = 0; k < weights.size(); ++k) weights[k] = noise(0, -1, k);
  model.weights = weights;
  model.gradient = gradient;
  model.groups = std::move(groups);
  optimizer = make_optimizer(config, model, transport);
  gradient_of = [this](std::int64_t step, int rank, std::size_t k) {
    return 0.3F * weights[k] + noise(step, rank, k);
  };
  lr = [](std::int64_t step) { return 0.01 / (1 + 0.05 * static_cast<double>(step)); };
}

void Training::compute() {
  for (std::size_t k = 0; k < gradient.size(); ++k)
    gradient[k] = gradient_of(next(), world.rank(), k);
}

void Training::run_to(std::int64_t last) {
  while (next() <= last) {
    compute();
    optimizer->step(lr(next()));
  }
}

std::map<std::string, std::string> bytes_of(const Training& training) {
  std::map<std::string, std::string> all;
  std::vector<float> synced(training.weights.size());
  training.optimizer->synced_weights(synced);
  all["weights"] = text(std::as_bytes(std::span(training.weights)));
  all["synced weights"] = text(std::as_bytes(std::span(synced)));
  for (const State& state : training.optimizer->state())
    all[state.name] = text(std::as_bytes(state.values)) + text(std::as_bytes(state.scalars));
  return all;
}

void expect_same(const std::map<std::string, std::string>& a,
                 const std::map<std::string, std::string>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, bytes] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_TRUE(bytes == b.at(name)) << name << " differs";
  }
}

std::span<float> state_of(Optimizer& optimizer, const std::string& name) {
  for (const State& state : optimizer.state())
    if (state.name == name) return state.values;
  return {};
}

bool all_finite(const Training& training) {
  for (const float x : training.weights)
    if (!std::isfinite(x)) return false;
  for (const State& state : training.optimizer->state()) {
    for (const float x : state.values)
      if (!std::isfinite(x)) return false;
    for (const double x : state.scalars)
      if (!std::isfinite(x)) return false;
  }
  return true;
}

bool equal_on_all(Transport& world, std::span<const float> values) {
  const auto all = world.gather(hash64(std::as_bytes(values)));
  return std::equal(all.begin() + 1, all.end(), all.begin());
}

std::vector<std::vector<float>> gathered(Transport& world, std::span<const float> values) {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<float> flat;
  world.gather(values, flat);
  std::vector<std::vector<float>> all(ranks);
  for (std::size_t r = 0; r < ranks; ++r)
    all[r].assign(flat.data() + r * values.size(), flat.data() + (r + 1) * values.size());
  return all;
}

bool synced(Optimizer& optimizer) {
  const std::string& kind = optimizer.stats().kind;
  if (kind != "dense" && kind != "coded") return false;
  for (const State& state : optimizer.state())
    if (state.name == "counters") return state.scalars[8] == 0;  // nothing is open
  return true;
}

}  // namespace laconic::testing
