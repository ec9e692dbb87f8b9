#pragma once

#include <limits>
#include <utility>

#include "tests/device/cuda_case.h"

// What the cases of encode kernels share.
namespace laconic::testing {

inline constexpr std::size_t kStride = 256;  // messages of rows begin at its multiples
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

// What is encoded, on both sides.
struct Given {
  Source host;
  cuda::Source device;
};

struct EncodeOptions {
  std::string codec = "sign", values = "normal", source = "values";
  std::size_t elements = 4096, scale_block = 4096, quant_block = 256, top_k = 128;
  unsigned rows = 1;
  std::size_t slice = 0, capacity = 0;
  kernels::Norm norm = kernels::Norm::kL2;
  bool live = false, sampled = false, recorded = false, spends = false;
  // full, pending, ema, decay, reset: what is kept; zeros, none: nothing is.
  std::string feedback = "full";
  std::vector<std::pair<std::size_t, float>> bad = {};       // of g or the values
  std::vector<std::pair<std::size_t, float>> residual = {};  // of e
};

std::vector<float> with(std::vector<float> values,
                        const std::vector<std::pair<std::size_t, float>>& changes);
Given give(Case& c, const EncodeOptions& o, Both<float> pending);

}  // namespace laconic::testing
