// Feeds the files of the folders that are named to a target: what a fuzzer found once is tried in
// every build.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <vector>

#include "tests/fuzz/input.h"

namespace {

namespace fs = std::filesystem;

// Small files cannot ask for much memory. Sanitizers need all of the address space themselves.
void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  constexpr rlim_t kMost = rlim_t{1} << 30;
  const rlimit limit{kMost, kMost};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) std::abort();
#endif
}

std::vector<fs::path> files_in(const fs::path& path) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int count, char** arguments) {
  limit_memory();
  std::size_t inputs = 0;
  for (int i = 1; i < count; ++i)
    for (const fs::path& path : files_in(arguments[i])) {
      std::printf("%s\n", path.c_str());
      std::fflush(stdout);
      std::ifstream file(path, std::ios::binary);
      const std::string bytes(std::istreambuf_iterator<char>(file), {});
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      ++inputs;
    }
  std::printf("%zu inputs\n", inputs);
  return inputs == 0 ? 1 : 0;
}
