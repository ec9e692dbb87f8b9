#include "laconic/device/cuda/compiler.h"

#include <dlfcn.h>

#include <cstdlib>
#include <iterator>
#include <vector>

#include "laconic/core/error.h"
#include "laconic/core/hash.h"
#include "laconic/device/cuda/kernels.h"

namespace laconic::cuda {
namespace {

using Program = struct _nvrtcProgram*;

constexpr int kOldest = 12;  // major version: C++20, and drivers from 525 on

class Nvrtc final : public Compiler {
 public:
  explicit Nvrtc(const char* library) {
    void* handle = open(library);
    const auto bind = [&](auto& function, const char* symbol) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
      if (function == nullptr)
        fail(Code::kUnavailable, "CUDA: NVRTC has no {}: install NVRTC {} or later ({})", symbol,
             kOldest, kInstall);
    };
    int (*version)(int*, int*) = nullptr;
    bind(version, "nvrtcVersion");
    bind(create_, "nvrtcCreateProgram");
    bind(compile_, "nvrtcCompileProgram");
    bind(image_size_, "nvrtcGetCUBINSize");
    bind(image_, "nvrtcGetCUBIN");
    bind(log_size_, "nvrtcGetProgramLogSize");
    bind(log_, "nvrtcGetProgramLog");
    bind(destroy_, "nvrtcDestroyProgram");
    if (version(&major_, &minor_) != 0 || major_ < kOldest)
      fail(Code::kUnavailable, "CUDA: NVRTC {}.{} is too old: install NVRTC {} or later ({})",
           major_, minor_, kOldest, kInstall);
  }

  std::string version() const override { return fmt::format("NVRTC {}.{}", major_, minor_); }

  // Machine code rather than PTX: a driver older than NVRTC refuses its PTX, but not its code.
  std::string compile(std::string_view name, std::string_view text,
                      int architecture) const override {
    std::vector<std::string> strings;
    for (const Text& header : header_texts()) {
      strings.emplace_back(header.text);
      strings.emplace_back(header.name);
    }
    std::vector<const char*> texts, names, options;
    for (std::size_t i = 0; i < strings.size(); i += 2) {
      texts.push_back(strings[i].c_str());
      names.push_back(strings[i + 1].c_str());
    }
    const std::string target = fmt::format("--gpu-architecture=sm_{}", architecture);
    options.push_back(target.c_str());
    options.insert(options.end(), std::begin(kCompilerOptions), std::end(kCompilerOptions));
    Program program{};
    if (create_(&program, std::string(text).c_str(), std::string(name).c_str(),
                static_cast<int>(texts.size()), texts.data(), names.data()) != 0)
      fail(Code::kUnavailable, "CUDA: {} takes no program: {}", version(), kInstall);
    const bool failed = compile_(program, static_cast<int>(options.size()), options.data()) != 0;
    std::size_t size = 0;
    (failed ? log_size_ : image_size_)(program, &size);
    std::string out(size, '\0');
    (failed ? log_ : image_)(program, out.data());
    destroy_(&program);
    if (failed)
      fail(
          Code::kUnavailable,
          "CUDA: {} does not compile {} for compute capability {}: {}\nInstall an NVRTC that knows "
          "this GPU ({})",
          version(), name, architecture, out, kInstall);
    return out;
  }

 private:
  static constexpr const char* kInstall =
      "pip install nvidia-cuda-nvrtc, or NVIDIA's CUDA toolkit; $LACONIC_NVRTC names the library";

  static void* open(const char* library) {
    if (library == nullptr) library = std::getenv("LACONIC_NVRTC");
    std::vector<const char*> names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    if (library != nullptr) names = {library};
    std::string errors;
    for (const char* name : names) {
      if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
      errors += fmt::format("{}{}", errors.empty() ? "" : "; ", dlerror());
    }
    fail(Code::kUnavailable, "CUDA: NVRTC, which compiles the kernels, cannot be opened ({}): {}",
         errors, kInstall);
  }

  int (*create_)(Program*, const char* text, const char* name, int headers,
                 const char* const* texts, const char* const* names) = nullptr;
  int (*compile_)(Program, int options, const char* const*) = nullptr;
  int (*image_size_)(Program, std::size_t*) = nullptr;
  int (*image_)(Program, char*) = nullptr;
  int (*log_size_)(Program, std::size_t*) = nullptr;
  int (*log_)(Program, char*) = nullptr;
  int (*destroy_)(Program*) = nullptr;
  int major_ = 0, minor_ = 0;
};

class EmulatedCompiler final : public Compiler {
 public:
  std::string version() const override { return "no compiler"; }
  std::string compile(std::string_view name, std::string_view, int) const override {
    return fmt::format("\177ELF, a stand-in for {}", name);
  }
};

}  // namespace

std::unique_ptr<Compiler> open_nvrtc(const char* library) {
  return std::make_unique<Nvrtc>(library);
}

std::unique_ptr<Compiler> emulated_compiler() { return std::make_unique<EmulatedCompiler>(); }

std::string texts_hash() {
  std::string all;
  for (const auto texts : {kernel_texts(), header_texts()})
    for (const Text& one : texts) all += fmt::format("{}\n{}\n", one.name, one.text);
  for (const char* option : kCompilerOptions) all += fmt::format("{}\n", option);
  return fmt::format("{:016x}", hash64(std::as_bytes(std::span(all))));
}

}  // namespace laconic::cuda
