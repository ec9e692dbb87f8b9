#include "laconic/device/cuda/lanes.h"

// Steps whose length is a tensor's to decide. A piece may run through several parts.
namespace laconic::cuda {
namespace {

// work(part, k, step, i) for element k of each part, the piece's i-th.
template <class Work>
__device__ void for_each_element(const TensorPart* parts, const TensorPiece& piece,
                                 const Work& work) {
  std::int64_t done = 0, begin = piece.begin;
  for (std::int64_t number = piece.part; done < piece.count; ++number) {
    const TensorPart& part = parts[number];
    if (done > 0) begin = part.begin;
    const std::int64_t count = smaller(piece.count - done, part.begin + part.count - begin);
    TrustStep step = part.step;
    if (part.floors.begins == nullptr) {
      LACONIC_ROLLED
      for (std::int64_t k = thread(); k < count; k += kThreads)
        work(part, begin + k, step, static_cast<int>(done + k));
    } else {
      FloorCursor floors(part.floors, begin);
      LACONIC_ROLLED
      for (std::int64_t k = thread(); k < count; k += kThreads) {
        step.floor = floors.at(begin + k);
        work(part, begin + k, step, static_cast<int>(done + k));
      }
    }
    done += count;
  }
}

}  // namespace

LACONIC_KERNEL tensor_norms(TensorArguments of) {
  __shared__ float tile[kTile];
  const TensorPiece piece = of.pieces[blockIdx.x];
  const SumOfWeights squares{Norm::kL2};
  const auto sum = [&] {
    return fold(squares, measure_on(squares, 0, static_cast<int>(piece.count),
                                    [&](int k) { return tile[k]; }));
  };
  for_each_element(of.parts, piece,
                   [&](const TensorPart& part, std::int64_t k, const TrustStep& step, int i) {
                     tile[i] = trust_direction_of(step, part.m[k], part.v[k], part.x[k]);
                   });
  __syncthreads();
  const float u = sum();
  __syncthreads();
  const float* x = of.parts[piece.part].x + piece.begin;
  for (int i = thread(); i < piece.count; i += kThreads) tile[i] = x[i];
  __syncthreads();
  const float all = sum();
  if (thread() != 0) return;
  of.u[blockIdx.x] = u;
  of.x[blockIdx.x] = all;
}

LACONIC_KERNEL tensor_apply(TensorArguments of) {
  for_each_element(of.parts, of.pieces[blockIdx.x],
                   [&](const TensorPart& part, std::int64_t k, const TrustStep& step, int) {
                     if (part.rate == 0 || (part.left != nullptr && part.left[k / kWord] != 0))
                       return;
                     part.x[k] = trust_moved(step, part.rate, part.m[k], part.v[k], part.x[k]);
                   });
}

}  // namespace laconic::cuda
