#pragma once

#include "laconic/device/cuda/block.h"

namespace laconic::cuda {

// Value k of this rank, or with `fallback` what stands for it. Clears `good` where something is not
// finite.
__device__ inline float value_of(const Source& source, std::int64_t k, bool fallback, bool& good) {
  if (source.kind == SourceKind::kPendingMomentum) {
    float next = source.m[k];
    if (source.values != nullptr && !fallback) {
      const float g = source.values[k];
      good = good && is_finite(g);
      next = next_momentum(source.step, g, next);
    }
    return pending_message(source.step, source.shrink, next, source.pending[k]);
  }
  if (source.kind == SourceKind::kMomentum) {
    const float m = source.m[k];
    if (fallback) return m;
    const float g = source.values[k];
    good = good && is_finite(g);
    return next_momentum(source.step, g, m);
  }
  if (source.kind == SourceKind::kDisplacement) {
    if (fallback) return 0;
    const float moved = source.values[k] - source.m[k];
    good = good && is_finite(moved);
    return moved;
  }
  if (fallback && source.zero != 0) return 0;
  const float value = source.values[k];
  good = good && (source.checked == 0 || is_finite(value));
  return value;
}

}  // namespace laconic::cuda
