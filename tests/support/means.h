#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "laconic/collective/mean.h"
#include "laconic/core/hash.h"
#include "tests/support/difference.h"
#include "tests/support/ranks.h"

namespace laconic::testing {

// A kind of mean, as a suite names it.
struct Sort {
  std::string name;
  MeanConfig config;  // elements are the test's

  bool one_bit() const { return config.codec == "sign"; }
  bool random() const { return config.codec == "random-sign"; }
  bool votes() const { return config.codec == kVote; }
  bool exact() const { return config.codec == "fp32" || config.codec == "bf16"; }
  // Blocks with scales, and residuals.
  bool lossy() const { return !random() && !votes() && !exact(); }
  // Elements that share a scale, and bits of each.
  std::size_t block() const { return one_bit() ? config.scale_block : config.quant_block; }
  std::uint64_t bits() const {
    return one_bit() ? 1 : static_cast<std::uint64_t>(config.codec.back() - '0');
  }
};

inline Sort one_bit(std::size_t block, kernels::Norm norm) {
  return {fmt::format("one_bit_{}_{}", block, norm == kernels::Norm::kL2 ? "l2" : "l1"),
          {.codec = "sign", .scale_block = block, .scale_norm = norm}};
}

inline Sort random_sign(const char* name, RandomForm form) {
  return {name, {.codec = "random-sign", .form = form, .seed = 5, .bucket = 2}};
}

inline std::vector<Sort> one_bit_sorts() {
  using kernels::Norm;
  return {one_bit(4096, Norm::kL2), one_bit(256, Norm::kL1), one_bit(0, Norm::kL2),
          one_bit(8192, Norm::kL2)};
}

inline std::vector<Sort> integer_sorts() {
  return {{"int8", {.codec = "int8"}},
          {"int4", {.codec = "int4"}},
          {"int4_512_none", {.codec = "int4", .quant_block = 512, .feedback = Feedback::kNone}},
          {"int4_ema", {.codec = "int4", .feedback = Feedback::kEma, .feedback_reset = 7}},
          {"int2_decay", {.codec = "int2", .feedback = Feedback::kDecay}}};
}

inline std::vector<Sort> random_sorts() {
  return {random_sign("two_round", RandomForm::kTwoRound),
          random_sign("single_round", RandomForm::kSingleRound),
          random_sign("count", RandomForm::kCount)};
}

inline std::vector<Sort> vote_sorts() {
  return {{"vote", {.codec = "vote"}},
          {"vote_count", {.codec = "vote", .form = RandomForm::kCount}}};
}

inline std::vector<Sort> all_sorts() {
  std::vector<Sort> all{{"dense", {.codec = "fp32"}}, {"dense_bf16", {.codec = "bf16"}}};
  for (const auto& more : {one_bit_sorts(), integer_sorts(), random_sorts(), vote_sorts()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

// What a suite over means is run with. Nodes of one rank are flat.
struct Setting {
  Sort sort;
  int ranks, per_node;

  int nodes() const { return ranks / per_node; }
  bool flat() const { return per_node == 1; }
  // A lossy mean inside one node is a dense one.
  bool codes() const { return sort.lossy() && (flat() || nodes() > 1); }
  // The dense mean of one rank has nobody to talk to.
  bool exchanges() const { return ranks > 1 || sort.config.codec != "fp32"; }
  MeanConfig config(std::size_t elements) const {
    MeanConfig config = sort.config;
    config.elements = elements;
    return config;
  }
};

// All sorts × {flat, nodes of two, one node} × rank_counts().
inline std::vector<Setting> settings(const std::vector<Sort>& sorts) {
  std::vector<Setting> all;
  for (const Sort& sort : sorts)
    for (const int ranks : rank_counts()) {
      all.push_back({sort, ranks, 1});
      if (ranks % 2 == 0) all.push_back({sort, ranks, 2});
      if (ranks > 2) all.push_back({sort, ranks, ranks});
    }
  return all;
}

inline std::string name_of(const ::testing::TestParamInfo<Setting>& info) {
  const Setting& s = info.param;
  return s.flat() ? fmt::format("{}_flat_{}", s.sort.name, s.ranks)
                  : fmt::format("{}_{}_nodes_of_{}", s.sort.name, s.nodes(), s.per_node);
}
inline void PrintTo(const Setting& s, std::ostream* out) { *out << s.sort.name; }

class MeanTest : public ::testing::TestWithParam<Setting> {
 protected:
  static const Setting& setting() { return GetParam(); }
  // Calls fn(world, nodes) on every rank.
  template <typename Work>
  static void run(const Work& work, const RunOptions& options = {}) {
    run_ranks(
        setting().ranks,
        [&](Transport& world) {
          const Nodes nodes = make_nodes(world, setting().per_node);
          work(world, nodes);
        },
        options);
  }
};

// In [-1, 1), never 0: element k of what `rank` gives to exchange number `exchange`.
inline float value_of(int rank, int exchange, std::size_t k) {
  std::uint64_t x = (k + 1) * 0x9e3779b97f4a7c15U +
                    static_cast<std::uint64_t>(rank) * 0xbf58476d1U +
                    static_cast<std::uint64_t>(exchange) * 0x94d049bb1U;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27) * 0x94d049bb133111ebU;
  return static_cast<float>(static_cast<std::int32_t>(x >> 32) | 1) * 0x1p-31F;
}

inline std::vector<float> values_of(int rank, int exchange, std::size_t elements) {
  std::vector<float> values(elements);
  for (std::size_t k = 0; k < elements; ++k) values[k] = value_of(rank, exchange, k);
  return values;
}

inline std::vector<std::vector<float>> values_of_all(int ranks, int exchange,
                                                     std::size_t elements) {
  std::vector<std::vector<float>> all;
  for (int r = 0; r < ranks; ++r) all.push_back(values_of(r, exchange, elements));
  return all;
}

inline std::uint64_t hash_of(std::span<const float> values) {
  return hash64(std::as_bytes(values));
}

// Collective.
inline bool same_on_all(Transport& world, std::span<const float> values) {
  const auto mine = hash_of(values);
  for (const auto other : world.gather(mine))
    if (other != mine) return false;
  return true;
}

inline bool all_finite(std::span<const float> values) {
  for (const float value : values)
    if (!std::isfinite(value)) return false;
  return true;
}

}  // namespace laconic::testing
