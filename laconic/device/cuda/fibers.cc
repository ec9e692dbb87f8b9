#include "laconic/device/cuda/fibers.h"
// After it, as the kernels need what it defines.
#include "laconic/device/cuda/decode.cu"
#include "laconic/device/cuda/encode_dense.cu"
#include "laconic/device/cuda/encode_integers.cu"
#include "laconic/device/cuda/encode_sign.cu"
#include "laconic/device/cuda/encode_top_k.cu"
#include "laconic/device/cuda/kernels.h"
#include "laconic/device/cuda/passes.cu"
#include "laconic/device/cuda/signs.cu"
#include "laconic/device/cuda/tensors.cu"

namespace laconic::cuda {
namespace {

struct Emulated {
  std::string_view name;
  bool (*launch)(unsigned columns, unsigned rows, unsigned threads, const void* arguments,
                 unsigned seed);
};
#define LACONIC_EMULATED(kernel, Arguments, file) \
  Emulated{#kernel, fibers::launch<kernel, Arguments>},
constexpr Emulated kEmulated[] = {LACONIC_CUDA_KERNELS(LACONIC_EMULATED)};

}  // namespace

Emulation run_on_fibers(std::string_view kernel, Grid grid, const void* arguments, unsigned seed) {
  for (const Emulated& one : kEmulated)
    if (one.name == kernel)
      return one.launch(grid.x, grid.y, kThreads, arguments, seed) ? Emulation::kDone
                                                                   : Emulation::kStuck;
  return Emulation::kUnknown;
}

std::vector<Barrier> barriers_met() {
  const auto& all = fibers::block().barriers;
  return {all.begin(), all.end()};
}

void leave_out(const Barrier& barrier) { fibers::block().left_out = barrier; }

}  // namespace laconic::cuda
