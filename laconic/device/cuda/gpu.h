#pragma once

#include <array>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "laconic/device/cuda/compiler.h"
#include "laconic/device/cuda/driver.h"
#include "laconic/device/cuda/kernels.h"

namespace laconic::cuda {

// A GPU with its kernels loaded, in the context that torch uses. Shared by the devices of a process.
class Gpu {
 public:
  // Throws Error(kUnavailable) with what to do.
  Gpu(const Driver& driver, const Compiler& compiler, const CodeCache& cache, int ordinal);

  const Driver& driver() const noexcept { return driver_; }
  int ordinal() const noexcept { return ordinal_; }
  // "NVIDIA A100-SXM4-80GB".
  const std::string& name() const noexcept { return name_; }
  int architecture() const noexcept { return architecture_; }
  // What a self-test's result is valid for.
  const std::string& identity() const noexcept { return identity_; }
  Function find(std::string_view kernel) const { return functions_.find(kernel)->second; }

  // Current on this thread for as long as the object lives.
  class Current {
   public:
    explicit Current(const Gpu& gpu);
    // Where nothing may be thrown: the GPU may be gone.
    Current(const Gpu& gpu, std::nothrow_t) noexcept;
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const Driver& driver_;
  };

 private:
  void load(const Compiler& compiler, const CodeCache& cache);

  Driver driver_;
  int ordinal_, architecture_ = 0;
  std::string name_, identity_;
  Context context_{};
  std::map<std::string_view, Function> functions_;
};

}  // namespace laconic::cuda
