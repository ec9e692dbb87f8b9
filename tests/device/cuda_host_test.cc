#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "laconic/core/error.h"
#include "laconic/device/cuda/cuda_device.h"
#include "laconic/device/memory.h"
#include "laconic/device/self_test.h"
#include "laconic/transport/threads.h"
#include "tests/checkpoint/scratch.h"
#include "tests/optim/training.h"
#include "tests/support/thrown.h"

// The host's part of CUDA, on the stand-in driver.
namespace laconic::testing {
namespace {

namespace fs = std::filesystem;

// Counts what it compiles.
class Counting final : public cuda::Compiler {
 public:
  std::string version() const override { return version_; }
  std::string compile(std::string_view name, std::string_view, int architecture) const override {
    ++compiled;
    return fmt::format("\177ELF {} {} {}", name, architecture, version_);
  }
  mutable int compiled = 0;
  std::string version_ = "1";
};

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> all;
  for (const auto& one : fs::directory_iterator(folder)) all.push_back(one.path());
  return all;
}

TEST(CodeCache, CompilesOnceForATextACompilerAndAnArchitecture) {
  const Scratch scratch;
  const cuda::CodeCache cache(scratch / "cache");
  Counting compiler;
  const std::string code = cache.code_of(compiler, "a.cu", "text", 80);
  EXPECT_EQ(cache.code_of(compiler, "a.cu", "text", 80), code);
  EXPECT_EQ(compiler.compiled, 1);
  cache.code_of(compiler, "a.cu", "text", 90);
  cache.code_of(compiler, "b.cu", "text", 80);
  compiler.version_ = "2";
  cache.code_of(compiler, "a.cu", "text", 80);
  EXPECT_EQ(compiler.compiled, 4);
}

TEST(CodeCache, MakesDamagedAndForeignEntriesAgain) {
  const Scratch scratch;
  const cuda::CodeCache cache(scratch / "cache");
  const Counting compiler;
  const std::string code = cache.code_of(compiler, "a.cu", "text", 80);
  const fs::path entry = files_in(scratch / "cache").front();
  const std::string whole = read_text(entry);
  int expected = 1;
  for (std::size_t at = 0; at < whole.size(); at += 7) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    write_text(entry, damaged);
    EXPECT_EQ(cache.code_of(compiler, "a.cu", "text", 80), code);
    EXPECT_EQ(compiler.compiled, ++expected) << "byte " << at;
  }
  for (const std::size_t length : {std::size_t{0}, std::size_t{10}, whole.size() - 1}) {
    write_text(entry, whole.substr(0, length));
    EXPECT_EQ(cache.code_of(compiler, "a.cu", "text", 80), code);
    EXPECT_EQ(compiler.compiled, ++expected) << length << " bytes";
  }
  // Another key's entry under this name.
  const cuda::CodeCache other(scratch / "other");
  other.write("something else", code);
  fs::copy_file(files_in(scratch / "other").front(), entry, fs::copy_options::overwrite_existing);
  EXPECT_EQ(cache.code_of(compiler, "a.cu", "text", 80), code);
  EXPECT_EQ(compiler.compiled, ++expected);
}

TEST(CodeCache, DoesWithoutAFolder) {
  const cuda::CodeCache cache("/proc/no/such/folder");
  const Counting compiler;
  EXPECT_NE(cache.code_of(compiler, "a.cu", "text", 80), "");
  EXPECT_NE(cache.code_of(compiler, "a.cu", "text", 80), "");
  EXPECT_EQ(compiler.compiled, 2);
}

// The text of the error that `work` throws.
std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return fmt::format("{}: {}", name(error.code()), error.what());
  }
  return "no error";
}

TEST(Cuda, NamesWhatIsMissingAndWhatToInstall) {
  const std::string driver = error_of([] { cuda::open_driver("libno-such-cuda.so.1"); });
  EXPECT_NE(driver.find("libno-such-cuda.so.1 cannot be opened"), std::string::npos) << driver;
  EXPECT_NE(driver.find("install NVIDIA's driver"), std::string::npos) << driver;
  const std::string old = error_of([] { cuda::open_driver("libm.so.6"); });
  EXPECT_NE(old.find("has no cuInit: update NVIDIA's driver"), std::string::npos) << old;
  const std::string nvrtc = error_of([] { cuda::open_nvrtc("libno-such-nvrtc.so"); });
  EXPECT_NE(nvrtc.find("pip install nvidia-cuda-nvrtc"), std::string::npos) << nvrtc;
  const std::string ancient = error_of([] { cuda::open_nvrtc(OLD_NVRTC); });
  EXPECT_NE(ancient.find("NVRTC 11.2 is too old: install NVRTC 12"), std::string::npos) << ancient;
}

TEST(Cuda, RefusesNamesThatAreNoDevice) {
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:1234", "mps", "cpu:0"}) {
    EXPECT_FALSE(names_device(name)) << name;
    EXPECT_NE(error_of([&] { make_device(name, 1); }).find("cpu, emulated, cuda or cuda:k"),
              std::string::npos);
  }
}

std::shared_ptr<cuda::Gpu> gpu(int ordinal = 0) {
  return std::make_shared<cuda::Gpu>(cuda::emulated_driver(), *cuda::emulated_compiler(),
                                     cuda::CodeCache("/proc/none"), ordinal);
}

TEST(Cuda, NamesTheGpusThatThereAre) {
  const std::string error = error_of([] { gpu(3); });
  EXPECT_NE(error.find("there is no GPU 3, the driver sees 1"), std::string::npos) << error;
}

template <typename Found>
void expect_all_kernels(const std::vector<Found>& found) {
  for (const cuda::Kernel& kernel : cuda::all_kernels())
    EXPECT_TRUE(
        std::ranges::any_of(found, [&](const Found& one) { return one.kernel == kernel.name; }))
        << kernel.name << " is missing";
}

TEST(Cuda, EveryKernelGivesTheBitsOfTheCpu) {
  CudaDevice device(gpu(), 1, "a test");
  const auto checks = compare_with_host(device);
  EXPECT_GT(checks.size(), 100U);
  std::size_t elements = 0;
  for (const KernelCheck& one : checks) {
    EXPECT_EQ(one.difference, "") << one.kernel << ", " << one.with;
    elements += one.elements;
  }
  EXPECT_GT(elements, 1'000'000U);
  expect_all_kernels(checks);
}

TEST(Cuda, MeasuresItsKernelsBesideACopy) {
  CudaDevice device(gpu(), 1, "a test");
  const auto speeds = measure_speeds(device, 3 * kTile + 100);
  ASSERT_EQ(speeds.front().kernel, "copy");
  expect_all_kernels(speeds);
  for (const KernelSpeed& one : speeds) EXPECT_GT(one.gb_per_second, 0) << one.kernel;
}

using EmulatedDeathTest = ::testing::Test;

TEST(EmulatedDeathTest, HostCodeThatTouchesDeviceMemoryDies) {
  CudaDevice device(gpu(), 1, "a test");
  const Memory<float> memory(device, 1000);
  EXPECT_DEATH(memory.data()[3] = 1, "");
}

TEST(Emulated, MemoryThatWasNotWaitedForIsPoison) {
  const cuda::Driver driver = cuda::emulated_driver();
  CudaDevice device(gpu(), 1, "a test");
  const Memory<float> memory(device, 64);
  cuda::Stream stream{};
  driver.stream_create(&stream, 0);
  float value = 7;
  driver.to_host(&value, reinterpret_cast<cuda::Address>(memory.data()), sizeof value, stream);
  EXPECT_NE(value, 7);
  EXPECT_NE(value, 0);
  driver.stream_destroy(stream);
}

// Waits of a run, of streams or of the host: all are counted, and from the third step on one per step
// is left out.
struct Waits {
  bool of_stream = true;
  unsigned count = 0, left_out = ~0U, before = 0, per_step = 0;
};
Waits waits;

bool keeps(bool of_stream) {
  if (of_stream != waits.of_stream) return true;
  const unsigned number = waits.count++;
  return waits.per_step == 0 || number < waits.before ||
         (number - waits.before) % waits.per_step != waits.left_out;
}

// The weights of a run on one rank whose caller also moves the weights between steps; empty: the
// device failed. `ends` gets the number of waits until the end of each step.
std::vector<float> trained(const std::string& method, const char* device,
                           std::vector<unsigned>* ends = nullptr) {
  auto world = std::move(make_threads(1).front());
  OptimizerConfig config = short_config(method);
  config.device = device;
  try {
    Training training(config, *world, three_groups());
    for (std::int64_t t = 1; t <= 8; ++t) {
      for (float& x : training.weights) x *= 0.99F;
      training.run_to(t);
      if (ends) ends->push_back(waits.count);
    }
    return training.weights;
  } catch (const Error&) {
    return {};
  }
}

// Each wait of a stream for another, and each of the host for a copy, left out alone.
TEST(Emulated, NoticesEveryWaitThatIsMissing) {
  for (const char* method : {"adamw", "adamw:codec=int8:feedback=full", "birder"}) {
    const std::vector<float> right = trained(method, "cpu");
    for (const bool of_stream : {true, false}) {
      waits = {.of_stream = of_stream};
      cuda::filter_emulated_waits(keeps);
      std::vector<unsigned> ends;
      ASSERT_EQ(trained(method, "emulated", &ends), right);
      const unsigned before = ends[1], per_step = ends[2] - ends[1];
      ASSERT_EQ(ends[4] - ends[3], per_step);
      ASSERT_GT(per_step, 0U);
      for (unsigned left_out = 0; left_out < per_step; ++left_out) {
        bool noticed = false;
        for (unsigned seed = 1; seed <= 400 && !noticed; ++seed) {
          cuda::seed_emulated_driver(seed);
          waits = {of_stream, 0, left_out, before, per_step};
          noticed = trained(method, "emulated") != right;
        }
        EXPECT_TRUE(noticed) << method << ": wait " << left_out << " of " << per_step
                             << (of_stream ? " of streams" : " of the host");
      }
      cuda::filter_emulated_waits(nullptr);
    }
  }
}

TEST(Emulated, AnyOrderOfStreamsEndsWithTheSameBits) {
  const std::vector<float> right = trained("zero-one-adam", "cpu");
  for (unsigned seed = 1; seed <= 10; ++seed) {
    cuda::seed_emulated_driver(seed);
    EXPECT_EQ(trained("zero-one-adam", "emulated"), right) << "seed " << seed;
  }
}

TEST(Emulated, SaysThatMemoryIsMissing) {
  auto world = std::move(make_threads(1).front());
  OptimizerConfig config = short_config("adamw");
  config.device = "emulated";
  cuda::limit_emulated_memory(300);
  const std::string error = error_of([&] { Training(config, *world, three_groups()); });
  cuda::limit_emulated_memory(0);
  EXPECT_NE(error.find("out of memory"), std::string::npos) << error;
  EXPECT_NE(error.find("allocating"), std::string::npos) << error;
}

// The weights are those before the step, or the error is thrown: never half of them.
TEST(Emulated, SaysThatTheGpuIsGone) {
  auto world = std::move(make_threads(1).front());
  OptimizerConfig config = short_config("one-bit-adam");
  config.device = "emulated";
  Training training(config, *world, three_groups());
  training.run_to(3);
  const std::vector<float> before = training.weights;
  training.compute();
  cuda::lose_emulated_device(true);
  const std::string error = error_of([&] { training.optimizer->step(0.01); });
  cuda::lose_emulated_device(false);
  EXPECT_NE(error.find("unavailable"), std::string::npos) << error;
  EXPECT_NE(error.find("resume from the last checkpoint"), std::string::npos) << error;
  EXPECT_EQ(training.weights, before);
}

TEST(Emulated, IsNamedByTheOptimizer) {
  auto world = std::move(make_threads(1).front());
  OptimizerConfig config = short_config("adamw");
  config.device = "emulated";
  const Training training(config, *world);
  EXPECT_NE(
      training.optimizer->describe().find("on emulated (kernels for GPUs on fibers of the CPU)"),
      std::string::npos)
      << training.optimizer->describe();
}

}  // namespace
}  // namespace laconic::testing
