#pragma once

#include <torch/torch.h>

// A backend of torch in place of CUDA, named "emulated": its tensors lie in memory of the library's
// stand-in for libcuda, which the host cannot touch. Copies to the device are enqueued on torch's
// current stream; everything else is computed by the CPU's kernels on copies. Memory that was freed
// is used again by its own stream, as by torch's allocator for CUDA.
namespace laconic::testing {

::torch::Device emulated_device();

// torch's current stream on this thread is one of its own while this lives; else the default one.
class OwnStream {
 public:
  OwnStream();
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

 private:
  ::c10::StreamId before_;
};

}  // namespace laconic::testing
