#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/device/cuda_case.h"

// Every kernel on fibers gives the memory that a host device gives, bit for bit; the payload and sign
// of a NaN apart. With a folder as argument, writes the cases there for ptx_test.py.
namespace laconic::testing {
namespace {

template <typename T, typename Same>
std::ptrdiff_t first_difference(const Case::Array& array, const Same& same) {
  const auto* a = reinterpret_cast<const T*>(array.device.data());
  const auto* b = reinterpret_cast<const T*>(array.expected.data());
  const auto count = static_cast<std::ptrdiff_t>(array.device.size() / sizeof(T));
  for (std::ptrdiff_t i = 0; i < count; ++i)
    if (!same(a[i], b[i])) return i;
  return -1;
}

template <typename T>
bool same_float(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

// What has addresses in it differs by them; kernels do not write there.
bool has_addresses(const Case::Array& array) {
  return array.name == "parts" || array.name == "pieces";
}

std::string difference(const Case& c) {
  for (const Case::Array& array : c.arrays) {
    if (has_addresses(array)) continue;
    const auto at = array.kind == "f4"   ? first_difference<float>(array, same_float<float>)
                    : array.kind == "f8" ? first_difference<double>(array, same_float<double>)
                                         : first_difference<std::uint8_t>(array, std::equal_to<>());
    if (at >= 0) return array.name + " differs first at " + std::to_string(at);
  }
  return "";
}

// What is wrong, or nothing.
std::string run(Case& c, unsigned seed) {
  for (Case::Array& array : c.arrays)
    if (!has_addresses(array)) std::ranges::copy(array.before, array.device.begin());
  if (cuda::run_on_fibers(c.kernel, c.grid, c.arguments.data(), seed) != cuda::Emulation::kDone)
    return "threads wait for others that do not come";
  return difference(c);
}

TEST(CudaKernels, GiveTheHostsBitsOnFibers) {
  Cases cases = all_cases();
  for (Case& c : cases)
    for (unsigned seed = 0; seed < 3; ++seed) EXPECT_EQ(run(c, seed), "") << c.name;
}

// In a child, since a kernel without a barrier may write anywhere.
bool is_noticed(Cases& cases, const cuda::Barrier& barrier) {
  const pid_t child = fork();
  if (child == 0) {
    cuda::leave_out(barrier);
    for (unsigned seed = 1; seed <= 4; ++seed)
      if (std::ranges::any_of(cases, [&](Case& c) { return run(c, seed) != ""; })) _exit(1);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status != 0;
}

TEST(CudaKernels, NeedEveryBarrier) {
  Cases cases = all_cases();
  for (Case& c : cases) ASSERT_EQ(run(c, 0), "") << c.name;
  const auto barriers = cuda::barriers_met();
  EXPECT_GE(barriers.size(), 20);
  EXPECT_FALSE(is_noticed(cases, {}));
  for (const cuda::Barrier& barrier : barriers)
    EXPECT_TRUE(is_noticed(cases, barrier)) << barrier.file << ":" << barrier.line;
}

TEST(CudaKernels, AllHaveCases) {
  std::set<std::string_view> covered, all;
  const Cases cases = all_cases();
  for (const Case& c : cases) covered.insert(c.kernel);
  for (const cuda::Kernel& kernel : cuda::all_kernels()) all.insert(kernel.name);
  EXPECT_EQ(covered, all);
}

TEST(CudaKernels, AreNamed) {
  EXPECT_EQ(cuda::run_on_fibers("no_such_kernel", {1, 1}, nullptr, 0), cuda::Emulation::kUnknown);
}

// index.json and one file of bytes: arrays before and after, arguments, and where addresses stand.
class Dump {
 public:
  explicit Dump(const std::filesystem::path& folder)
      : bytes_(folder / "bytes", std::ios::binary), index_(folder / "index.json") {}

  void write(const Cases& cases) {
    index_ << "[";
    for (std::size_t i = 0; i < cases.size(); ++i) {
      index_ << (i == 0 ? "\n" : ",\n");
      write(cases[i]);
    }
    index_ << "\n]\n";
  }

 private:
  void write(const Case& c) {
    index_ << R"({"name": ")" << c.name << R"(", "kernel": ")" << c.kernel << R"(", "grid": [)"
           << c.grid.x << ", " << c.grid.y << R"(], "arguments": )" << put(c.arguments, c)
           << R"(, "arrays": [)";
    for (std::size_t i = 0; i < c.arrays.size(); ++i) {
      const Case::Array& array = c.arrays[i];
      // Addresses are those of `device`.
      const bool addresses = has_addresses(array);
      index_ << (i == 0 ? "" : ", ") << R"({"name": ")" << array.name << R"(", "kind": ")"
             << array.kind << R"(", "before": )" << put(addresses ? array.device : array.before, c)
             << R"(, "after": )" << put(addresses ? array.device : array.expected, c) << "}";
    }
    index_ << "]}";
  }

  // [offset, size, [[where an address stands, the array's number, bytes into it], …]]
  std::string put(const std::vector<std::byte>& data, const Case& c) {
    std::string text = "[" + std::to_string(at_) + ", " + std::to_string(data.size()) + ", [";
    const char* separator = "";
    for (std::size_t i = 0; i + 8 <= data.size(); i += 8) {
      std::uintptr_t value = 0;
      std::memcpy(&value, data.data() + i, 8);
      for (std::size_t number = 0; number < c.arrays.size(); ++number) {
        const auto& device = c.arrays[number].device;
        const auto first = reinterpret_cast<std::uintptr_t>(device.data());
        if (device.empty() || value < first || value >= first + device.size()) continue;
        text += separator + ("[" + std::to_string(i)) + ", " + std::to_string(number) + ", " +
                std::to_string(value - first) + "]";
        separator = ", ";
      }
    }
    bytes_.write(reinterpret_cast<const char*>(data.data()),
                 static_cast<std::streamsize>(data.size()));
    at_ += data.size();
    return text + "]]";
  }

  std::ofstream bytes_, index_;
  std::size_t at_ = 0;
};

// Texts as the library has them.
void write_texts(const std::filesystem::path& folder, std::span<const cuda::Text> texts) {
  for (const cuda::Text& text : texts) {
    const auto path = folder / text.name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text.text;
  }
}

}  // namespace
}  // namespace laconic::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc < 2) return RUN_ALL_TESTS();
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  laconic::testing::Dump(folder).write(laconic::testing::all_cases());
  laconic::testing::write_texts(folder / "texts", laconic::cuda::kernel_texts());
  laconic::testing::write_texts(folder / "headers", laconic::cuda::header_texts());
  std::ofstream options(folder / "options");
  for (const char* option : laconic::cuda::kCompilerOptions) options << option << "\n";
  return 0;
}
