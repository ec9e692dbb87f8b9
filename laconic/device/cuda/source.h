#pragma once

#include "laconic/device/cuda/block.h"

namespace laconic::cuda {

// Value k of this rank, or with `fallback` what stands for it. Clears `good` where something is not
// finite.
template <SourceKind kKind>
__device__ float value_of(const Source& source, std::int64_t k, bool fallback, bool& good) {
  if constexpr (kKind == SourceKind::kPendingMomentum) {
    float next = source.m[k];
    if (source.values != nullptr && !fallback) {
      const float g = source.values[k];
      good = good && is_finite(g);
      next = next_momentum(source.step, g, next);
    }
    return pending_message(source.step, source.shrink, next, source.pending[k]);
  } else if constexpr (kKind == SourceKind::kMomentum) {
    const float m = source.m[k];
    if (fallback) return m;
    const float g = source.values[k];
    good = good && is_finite(g);
    return next_momentum(source.step, g, m);
  } else if constexpr (kKind == SourceKind::kDisplacement) {
    if (fallback) return 0;
    const float moved = source.values[k] - source.m[k];
    good = good && is_finite(moved);
    return moved;
  } else {
    if (fallback && source.zero != 0) return 0;
    const float value = source.values[k];
    good = good && (source.checked == 0 || is_finite(value));
    return value;
  }
}

// work(kind): the kind of a source as a constant.
template <SourceKind kKind>
struct Kind {
  static constexpr SourceKind value = kKind;
};
template <class Work>
__device__ void with_kind(SourceKind kind, const Work& work) {
  if (kind == SourceKind::kPendingMomentum)
    work(Kind<SourceKind::kPendingMomentum>{});
  else if (kind == SourceKind::kMomentum)
    work(Kind<SourceKind::kMomentum>{});
  else if (kind == SourceKind::kDisplacement)
    work(Kind<SourceKind::kDisplacement>{});
  else
    work(Kind<SourceKind::kValues>{});
}

__device__ inline float value_of(const Source& source, std::int64_t k, bool fallback, bool& good) {
  float value = 0;
  with_kind(source.kind,
            [&](auto kind) { value = value_of<decltype(kind)::value>(source, k, fallback, good); });
  return value;
}

}  // namespace laconic::cuda
