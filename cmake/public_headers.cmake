# The public API: what is installed, and all that app/, python/ and examples/ may include.
# One list and install(FILES), since FILE_SET would need CMake 3.23. tests/layers.py reads it too.
set(LACONIC_PUBLIC_HEADERS
  laconic/checkpoint/checkpoint.h
  laconic/checkpoint/file.h
  laconic/checkpoint/safetensors.h
  laconic/collective/mean.h
  laconic/collective/switching.h
  laconic/core/buffer.h
  laconic/core/error.h
  laconic/core/hash.h
  laconic/core/parallel.h
  laconic/core/random.h
  laconic/device/device.h
  laconic/device/pass.h
  laconic/kernels/arithmetic.h
  laconic/optim/bucket_tracker.h
  laconic/optim/config.h
  laconic/optim/optimizer.h
  laconic/optim/learning_rate.h
  laconic/optim/method.h
  laconic/optim/option.h
  laconic/optim/rest.h
  laconic/optim/gradient_rule.h
  laconic/optim/rule.h
  laconic/optim/schedule.h
  laconic/optim/policy.h
  laconic/optim/spelling.h
  laconic/plan/cost.h
  laconic/plan/recipes.h
  laconic/transport/emulated.h
  laconic/transport/engine.h
  laconic/transport/faulty.h
  laconic/transport/metered.h
  laconic/transport/nodes.h
  laconic/transport/threads.h
  laconic/transport/transport.h
)
# Installed with laconic::mpi only.
set(LACONIC_PUBLIC_MPI_HEADERS
  laconic/transport/mpi.h
)
# Installed with laconic::torch only.
set(LACONIC_PUBLIC_TORCH_HEADERS
  laconic/torch/data_parallel.h
  laconic/torch/optim.h
)
