#include "laconic/device/cuda/source.h"

// Whole values: what exact codecs send and ranks of a node share.
namespace laconic::cuda {

LACONIC_KERNEL encode_dense(DenseArguments of) {
  __shared__ int bad;
  const Span span = encoded_span(of.rows);
  if (thread() == 0) bad = 0;
  __syncthreads();
  if (of.falls_back != 0) {
    bool good = true;
    LACONIC_ROLLED
    for (std::int64_t k = thread(); k < span.count; k += kThreads)
      value_of(of.source, span.at + k, false, good);
    if (!good) atomicOr(&bad, 1);
    __syncthreads();
    if (thread() == 0 && bad != 0 && of.bad != nullptr) atomicAdd(of.bad, Counter{1});
  }
  const bool fallback = bad != 0;
  std::uint8_t* out = row_message(of.out.payload, of.out.stride);
  const std::int64_t room = smaller(of.rows.capacity - span.begin, of.rows.item);
  LACONIC_ROLLED
  for (std::int64_t k = thread(); k < room; k += kThreads) {
    const std::int64_t at = span.at + k;
    bool unused = true;
    const float value = k < span.count ? value_of(of.source, at, fallback, unused) : 0.0F;
    if (of.bf16 != 0)
      reinterpret_cast<std::uint16_t*>(out)[span.begin + k] = bf16_of(value);
    else
      reinterpret_cast<float*>(out)[span.begin + k] = value;
    if (k >= span.count) continue;
    if (of.recorded != nullptr) of.recorded[at] = value;
    if (of.spent != nullptr) of.spent[at] = 0;
  }
}

}  // namespace laconic::cuda
