#pragma once

#include <compare>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "laconic/device/cuda/arguments.h"

// The kernels, by name, and their text. Every kernel takes one structure by value, runs with
// kThreads threads per block and uses no dynamic shared memory.
namespace laconic::cuda {

// X(kernel, its arguments, file)
#define LACONIC_CUDA_KERNELS(X)                                 \
  X(encode_sign, EncodeArguments, "encode_sign.cu")             \
  X(encode_integers, EncodeArguments, "encode_integers.cu")     \
  X(encode_top_k, EncodeArguments, "encode_top_k.cu")           \
  X(encode_dense, DenseArguments, "encode_dense.cu")            \
  X(draw_signs, SignsArguments, "signs.cu")                     \
  X(cast_votes, SignsArguments, "signs.cu")                     \
  X(share_signs, SignsArguments, "signs.cu")                    \
  X(decode_store, StoreArguments, "decode.cu")                  \
  X(decode_sgdm, SgdmArguments, "decode.cu")                    \
  X(decode_lion, LionArguments, "decode.cu")                    \
  X(decode_adamw, AdamWArguments, "decode.cu")                  \
  X(decode_moments, MomentsArguments, "decode.cu")              \
  X(decode_momentum_store, MomentumStoreArguments, "decode.cu") \
  X(decode_momentum_apply, MomentumApplyArguments, "decode.cu") \
  X(decode_pending_sync, PendingSyncArguments, "decode.cu")     \
  X(decode_sign_update, SignUpdateArguments, "decode.cu")       \
  X(decode_outer, OuterArguments, "decode.cu")                  \
  X(local_step, LocalStepArguments, "passes.cu")                \
  X(moments_apply, MomentsApplyArguments, "passes.cu")          \
  X(update_floors, FloorsArguments, "passes.cu")                \
  X(tensor_norms, TensorArguments, "tensors.cu")                \
  X(tensor_apply, TensorArguments, "tensors.cu")                \
  X(measure, MeasureArguments, "passes.cu")                     \
  X(scale, ScaleArguments, "passes.cu")

struct Kernel {
  std::string_view name, file;
  std::size_t arguments;  // bytes
};

// In the order above.
std::span<const Kernel> all_kernels() noexcept;

// A file to compile or a header that such a file includes by this name.
struct Text {
  std::string_view name, text;
};
std::span<const Text> kernel_texts() noexcept;
// What a file includes, standard headers too: for nvrtcCreateProgram.
std::span<const Text> header_texts() noexcept;

// NVRTC's options beside --gpu-architecture. They are part of the arithmetic.
inline constexpr const char* kCompilerOptions[] = {"--std=c++20", "--fmad=false", "--ftz=false",
                                                   "--prec-div=true", "--prec-sqrt=true"};

struct Grid {
  unsigned x, y;
};
constexpr std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// encode_… and draw_signs, cast_votes, share_signs: whole messages are written.
constexpr Grid encode_grid(const Rows& rows, unsigned number) {
  return {static_cast<unsigned>(ceiling(rows.capacity, rows.item)), number};
}
// decode_…
constexpr Grid decode_grid(const Rows& rows, unsigned number) {
  return {static_cast<unsigned>(ceiling(rows.length, rows.item) * ceiling(rows.item, kTile)),
          number};
}
// A thread block per tile: measure, scale.
constexpr Grid tile_grid(std::int64_t elements) {
  return {static_cast<unsigned>(ceiling(elements, kTile)), 1};
}
// A thread block per block of floors or piece: local_step, moments_apply, update_floors, tensor_….
constexpr Grid block_grid(std::int64_t number) { return {static_cast<unsigned>(number), 1}; }

// The item of blocks of `block` elements.
constexpr std::int64_t item_of(std::int64_t block) {
  return block > kTile ? block : kTile / block * block;
}

// Runs a kernel on fibers of the calling thread, for the emulated device: `arguments` has
// Kernel::arguments bytes, and memory is the host's. The order of threads follows from `seed`.
// Stuck: threads wait for others that do not come, which is an error of the kernel.
enum class Emulation : std::uint8_t { kDone, kUnknown, kStuck };
Emulation run_on_fibers(std::string_view kernel, Grid grid, const void* arguments, unsigned seed);

// For tests of tests: a barrier in the kernels' text; those that kernels on this thread have met; and
// one at which their threads do not wait.
struct Barrier {
  std::string_view file;
  int line = 0;

  friend auto operator<=>(const Barrier&, const Barrier&) = default;
};
std::vector<Barrier> barriers_met();
void leave_out(const Barrier& barrier);

}  // namespace laconic::cuda
