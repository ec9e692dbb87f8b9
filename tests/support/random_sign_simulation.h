#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "laconic/collective/mean.h"
#include "laconic/core/random.h"

namespace laconic::testing {

// Birder's consensus of flat ranks in one place: plain loops after the specification; of the
// library only Philox.
class RandomSignSimulation {
 public:
  RandomSignSimulation(int ranks, const MeanConfig& config)
      : ranks_(static_cast<std::size_t>(ranks)), config_(config) {}

  // u[r][k] in [-1, 1]; active[r][w] for words of 64.
  std::vector<float> exchange(const std::vector<std::vector<float>>& u,
                              const std::vector<std::vector<bool>>& active,
                              std::uint32_t step) const {
    return config_.form == RandomForm::kSingleRound ? single_round(u, active, step)
                                                    : by_owners(u, active, step);
  }

 private:
  std::uint32_t word(Stream stream, std::size_t second, std::size_t fourth, std::uint32_t step,
                     std::size_t index) const {
    return philox({static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(second),
                   config_.bucket, static_cast<std::uint32_t>(fourth)},
                  {config_.seed, step})[index];
  }

  // +1 with probability (1 + m/b)/2.
  bool draw(Stream stream, std::size_t rank, std::size_t k, std::uint32_t step, float m,
            float b) const {
    const std::uint32_t pair = word(stream, rank, k / 8, step, k % 8 / 2);
    const std::uint32_t piece = k % 2 == 0 ? pair % 65536 : pair / 65536;
    const float s = static_cast<float>(piece) / 32768.0F - 1.0F + 1.0F / 65536.0F;
    return m > s * b || (m == s * b && s < 0);
  }

  std::vector<float> by_owners(const std::vector<std::vector<float>>& u,
                               const std::vector<std::vector<bool>>& active,
                               std::uint32_t step) const {
    const std::size_t elements = config_.elements;
    std::size_t chunk = (elements + ranks_ - 1) / ranks_;
    while (chunk % 64 != 0) ++chunk;
    std::vector<float> result(elements);
    for (std::size_t k = 0; k < elements; ++k) {
      int voters = 0, plus = 0;
      for (std::size_t r = 0; r < ranks_; ++r) {
        if (!active[r][k / 64]) continue;
        ++voters;
        plus += draw(Stream::kWorkerDraw, r, k, step, u[r][k], 1.0F) ? 1 : 0;
      }
      if (voters == 0) continue;
      const auto all = static_cast<float>(voters);
      if (config_.form == RandomForm::kCount)
        result[k] = static_cast<float>(2 * plus) / all - 1.0F;
      else
        result[k] =
            draw(Stream::kOwnerDraw, k / chunk, k, step, static_cast<float>(2 * plus - voters), all)
                ? 1.0F
                : -1.0F;
    }
    return result;
  }

  // The rank that each word of a run of words goes to.
  std::vector<std::size_t> deal(std::size_t run, std::uint32_t step) const {
    std::vector<std::size_t> cards;
    for (std::size_t r = 0; r < ranks_; ++r) cards.push_back(r);
    for (std::size_t drawn = 0; drawn + 1 < ranks_; ++drawn) {
      const std::size_t last = ranks_ - 1 - drawn;
      const std::uint64_t random = word(Stream::kDealing, drawn / 4, run, step, drawn % 4);
      std::swap(cards[last], cards[random * (last + 1) / (std::uint64_t{1} << 32)]);
    }
    return cards;
  }

  std::vector<float> single_round(const std::vector<std::vector<float>>& u,
                                  const std::vector<std::vector<bool>>& active,
                                  std::uint32_t step) const {
    std::vector<float> result(config_.elements);
    for (std::size_t k = 0; k < result.size(); ++k) {
      const std::size_t w = k / 64, rank = deal(w / ranks_, step)[w % ranks_];
      if (!active[rank][w]) continue;
      result[k] = draw(Stream::kWorkerDraw, rank, k, step, u[rank][k], 1.0F) ? 1.0F : -1.0F;
    }
    return result;
  }

  std::size_t ranks_;
  MeanConfig config_;
};

}  // namespace laconic::testing
