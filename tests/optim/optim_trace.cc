// Runs one case of compare.py: optim_trace CASE.json DIRECTORY. Reads weights.f32 and gradients.f32
// (steps x ranks x P) and writes x.f32 (steps x ranks x P) and synced.f32 (steps x P), all
// little-endian fp32.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "laconic/core/error.h"
#include "laconic/optim/optimizer.h"
#include "tests/support/ranks.h"

namespace {

using nlohmann::json;

std::vector<float> read(const std::string& path, std::size_t count) {
  std::vector<float> values(count);
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(4 * count));
  if (!file && count != 0) throw std::runtime_error("cannot read " + path);
  return values;
}

void write(const std::string& path, const std::vector<float>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(4 * values.size()));
  if (!file) throw std::runtime_error("cannot write " + path);
}

laconic::OptimizerConfig config_of(const json& from) {
  laconic::OptimizerConfig config;
  laconic::set(config, "algorithm", from.at("algorithm").get<std::string>());
  for (const auto& [field, value] : from.at("config").items())
    laconic::set(config, field, value.is_string() ? value.get<std::string>() : value.dump());
  return config;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) throw std::runtime_error("usage: optim_trace CASE.json DIRECTORY");
  std::ifstream file(argv[1]);
  const json one = json::parse(file);
  const std::string folder = argv[2];
  const auto ranks = one.at("ranks").get<std::size_t>(),
             elements = one.at("elements").get<std::size_t>();
  const auto rates = one.at("lr").get<std::vector<double>>();
  const auto asked = one.value("synchronize_at", std::vector<std::size_t>{});
  const std::set<std::size_t> synchronize_at(asked.begin(), asked.end());
  const laconic::OptimizerConfig config = config_of(one);
  std::vector<laconic::NamedRange> ranges;
  for (const auto& [begin, count] :
       one.value("ranges", std::vector<std::pair<std::size_t, std::size_t>>{}))
    ranges.push_back({fmt::format("from {}", begin), begin, count});
  const auto weights = read(folder + "/weights.f32", elements);
  const auto gradients = read(folder + "/gradients.f32", rates.size() * ranks * elements);
  std::vector<float> x(gradients.size()), synced(rates.size() * elements);
  laconic::run_ranks(static_cast<int>(ranks), [&](laconic::Transport& world) {
    auto mine = weights;
    std::vector<float> gradient(elements);
    const auto optimizer = laconic::make_optimizer(
        config, {.weights = mine, .gradient = gradient, .groups = {}, .ranges = ranges}, world);
    const auto rank = static_cast<std::size_t>(world.rank());
    for (std::size_t t = 0; t < rates.size(); ++t) {
      const std::size_t at = (t * ranks + rank) * elements;
      std::copy_n(gradients.data() + at, elements, gradient.data());
      optimizer->step(rates[t]);
      if (synchronize_at.contains(t + 1)) optimizer->synchronize();
      std::copy_n(mine.data(), elements, x.data() + at);
      if (rank == 0) optimizer->synced_weights(std::span(synced).subspan(t * elements, elements));
    }
  });
  write(folder + "/x.f32", x);
  write(folder + "/synced.f32", synced);
} catch (const std::exception& error) {
  fmt::print(stderr, "optim_trace: {}\n", error.what());
  return 1;
}
