#include "tests/support/mean_simulation.h"

#include <algorithm>
#include <cmath>

namespace laconic::testing {
namespace {

// Each of `parts` parts has this many elements, the last ones fewer.
std::size_t part_length(std::size_t elements, std::size_t parts) {
  std::size_t length = elements / parts;
  if (length * parts < elements) ++length;
  while (length % 64 != 0) ++length;
  return length;
}

MeanSimulation::Block part(const MeanSimulation::Block& of, std::size_t length, std::size_t index) {
  const std::size_t begin = std::min(of.count, index * length);
  const std::size_t end = std::min(of.count, begin + length);
  return {of.begin + begin, end - begin};
}

bool takes_part(std::span<const float> live, std::size_t k) { return live.empty() || live[k] != 0; }

float sum_of_16_lanes(std::span<const float> terms) {
  float lane[16] = {};
  for (std::size_t k = 0; k < terms.size(); ++k) lane[k % 16] += terms[k];
  for (int apart = 8; apart > 0; apart /= 2)
    for (int j = 0; j < apart; ++j) lane[j] = lane[j] + lane[j + apart];
  return lane[0];
}

}  // namespace

MeanSimulation::MeanSimulation(int nodes, int per_node, std::size_t elements, std::size_t block,
                               kernels::Norm norm)
    : MeanSimulation(nodes, per_node,
                     {.elements = elements, .scale_block = block, .scale_norm = norm}) {}

MeanSimulation::MeanSimulation(int nodes, int per_node, const MeanConfig& config)
    : nodes_(static_cast<std::size_t>(nodes)),
      per_node_(static_cast<std::size_t>(per_node)),
      elements_(config.elements),
      config_(config),
      worker_(nodes_, std::vector<float>(elements_)),
      server_(elements_) {
  if (config_.codec_down.empty())
    config_.codec_down = config.codec == "top-k" ? "int8" : config.codec;
  blocks_ = blocks_of(config.codec == "sign"    ? config.scale_block
                      : config.codec == "top-k" ? 4096
                                                : config.quant_block);
}

std::vector<MeanSimulation::Block> MeanSimulation::blocks_of(std::size_t of_block) const {
  std::vector<Block> blocks;
  for (std::size_t l = 0; l < per_node_; ++l) {
    const Block of_shard = shard(static_cast<int>(l));
    for (std::size_t node = 0; node < nodes_; ++node) {
      const Block chunk = part(of_shard, part_length(of_shard.count, nodes_), node);
      const std::size_t length = of_block == 0 ? chunk.count : of_block;
      for (std::size_t i = 0; i * length < chunk.count; ++i)
        blocks.push_back(part(chunk, length, i));
    }
  }
  return blocks;
}

MeanSimulation::Block MeanSimulation::shard(int local) const {
  return part({0, elements_}, part_length(elements_, per_node_), static_cast<std::size_t>(local));
}

void MeanSimulation::code(const std::string& codec, Feedback feedback, std::span<const float> live,
                          std::vector<float>& p, std::vector<float>& e) const {
  if (codec == "fp32") return;
  const std::vector<float> before = p;
  const std::size_t length = codec == "sign"    ? config_.scale_block
                             : codec == "top-k" ? 4096
                                                : config_.quant_block;
  for (const Block& block : blocks_of(length)) {
    if (codec == "sign")
      code_signs(block, live, p);
    else if (codec == "top-k")
      code_largest(block, live, p);
    else
      code_integers(block, live, codec.back() - '0', p);
  }
  for (std::size_t k = 0; k < elements_; ++k) {
    const float left = before[k] - p[k];
    switch (feedback) {
      case Feedback::kFull: e[k] = left; break;
      case Feedback::kEma:
        e[k] = static_cast<float>(config_.feedback_beta) * e[k] +
               static_cast<float>(1 - config_.feedback_beta) * left;
        break;
      case Feedback::kDecay: e[k] = static_cast<float>(config_.feedback_decay) * left; break;
      case Feedback::kNone: e[k] = 0; break;
    }
    if (!takes_part(live, k)) e[k] = 0;
  }
}

// All but the largest are left out; the others are coded as integers of 4 bits.
void MeanSimulation::code_largest(const Block& block, std::span<const float> live,
                                  std::vector<float>& p) const {
  std::vector<std::size_t> order;
  for (std::size_t k = block.begin; k < block.begin + block.count; ++k)
    if (takes_part(live, k)) order.push_back(k);
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return std::fabs(p[a]) > std::fabs(p[b]); });
  std::vector<float> kept(p.size());
  for (std::size_t i = 0; i < std::min(order.size(), config_.top_k); ++i)
    kept[order[i]] = p[order[i]];
  code_integers(block, live, 4, kept);
  for (std::size_t k = block.begin; k < block.begin + block.count; ++k) p[k] = kept[k];
}

void MeanSimulation::code_integers(const Block& block, std::span<const float> live, int bits,
                                   std::vector<float>& p) const {
  const std::size_t end = block.begin + block.count;
  float most = 0;
  for (std::size_t k = block.begin; k < end; ++k)
    if (takes_part(live, k)) most = std::max(most, std::fabs(p[k]));
  const auto levels = static_cast<float>(bits == 8 ? 127 : bits == 4 ? 7 : 1);
  float scale = most / levels;
  float inverse = 1 / scale;
  if (most == 0 || !std::isfinite(inverse)) scale = inverse = 0;
  for (std::size_t k = block.begin; k < end; ++k) {
    const float code = std::clamp(std::nearbyint(p[k] * inverse), -levels, levels);
    p[k] = takes_part(live, k) ? (code + 0.0F) * scale : 0;
  }
}

void MeanSimulation::code_signs(const Block& block, std::span<const float> live,
                                std::vector<float>& p) const {
  const std::size_t end = block.begin + block.count;
  std::vector<float> terms(block.count);
  std::size_t count = 0;
  for (std::size_t k = block.begin; k < end; ++k) {
    if (!takes_part(live, k)) continue;
    ++count;
    terms[k - block.begin] =
        config_.scale_norm == kernels::Norm::kL2 ? p[k] * p[k] : std::fabs(p[k]);
  }
  float sum = 0;
  if (config_.scale_block == 0) {
    double parts = 0;
    for (std::size_t k = 0; k < block.count; k += 4096)
      parts += sum_of_16_lanes(
          std::span(terms).subspan(k, std::min<std::size_t>(4096, block.count - k)));
    sum = static_cast<float>(parts);
  } else {
    sum = sum_of_16_lanes(terms);
  }
  float scale = 0;
  if (count != 0) scale = sum / static_cast<float>(count);
  if (config_.scale_norm == kernels::Norm::kL2) scale = std::sqrt(scale);
  for (std::size_t k = block.begin; k < end; ++k) {
    p[k] = takes_part(live, k) ? std::copysign(scale, p[k]) : scale;
  }
}

std::vector<float> MeanSimulation::exchange(const std::vector<std::vector<float>>& inputs,
                                            std::span<const float> live) {
  std::vector<std::vector<float>> p(nodes_, std::vector<float>(elements_));
  const auto of_node = static_cast<float>(1.0 / static_cast<double>(per_node_));
  for (std::size_t node = 0; node < nodes_; ++node)
    for (std::size_t k = 0; k < elements_; ++k) {
      float sum = inputs[node * per_node_][k];
      for (std::size_t l = 1; l < per_node_; ++l) sum += inputs[node * per_node_ + l][k];
      p[node][k] = sum * of_node + worker_[node][k];
    }
  for (std::size_t node = 0; node < nodes_; ++node)
    code(config_.codec, config_.feedback, live, p[node], worker_[node]);
  std::vector<float> q(elements_);
  const auto of_all = static_cast<float>(1.0 / static_cast<double>(nodes_));
  for (std::size_t k = 0; k < elements_; ++k) {
    float sum = p[0][k];
    for (std::size_t node = 1; node < nodes_; ++node) sum += p[node][k];
    q[k] = sum * of_all + server_[k];
    if (!takes_part(live, k)) q[k] = 0;
  }
  const bool both = config_.codec == config_.codec_down;
  const bool decays = config_.feedback == Feedback::kDecay;
  code(config_.codec_down, !both && decays ? Feedback::kFull : config_.feedback, live, q, server_);
  ++exchanges_;
  if (config_.feedback == Feedback::kEma && exchanges_ % config_.feedback_reset == 0) {
    for (auto& worker : worker_) std::ranges::fill(worker, 0.0F);
    std::ranges::fill(server_, 0.0F);
  }
  return q;
}

}  // namespace laconic::testing
