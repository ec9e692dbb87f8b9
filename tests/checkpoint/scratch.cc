#include "tests/checkpoint/scratch.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <span>
#include <vector>

#include "tests/support/ranks.h"

namespace laconic::testing {
Scratch::Scratch() {
  std::uint64_t number = 0;
  run_ranks(rank_counts().front(), [&](Transport& transport) {
    std::uint64_t mine = static_cast<std::uint64_t>(::getpid());
    transport.broadcast(std::as_writable_bytes(std::span(&mine, 1)), 0);
    const std::filesystem::path folder = ::testing::TempDir() + "laconic-" + std::to_string(mine);
    if (transport.rank() == 0) {
      std::filesystem::remove_all(folder);
      std::filesystem::create_directories(folder);
    }
    wait_for_all(transport);
    if (transport.rank() == 0 || !ranks_are_threads()) number = mine;
  });
  folder_ = ::testing::TempDir() + "laconic-" + std::to_string(number);
}

Scratch::~Scratch() {
  run_ranks(rank_counts().front(), [&](Transport& transport) {
    wait_for_all(transport);
    std::error_code ignored;
    if (transport.rank() == 0) std::filesystem::remove_all(folder_, ignored);
  });
}

void wait_for_all(Transport& transport) {
  const std::byte byte{};
  std::vector<std::byte> all(static_cast<std::size_t>(transport.size()));
  transport.all_gather(std::span(&byte, 1), all);
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  EXPECT_TRUE(file.flush()) << path;
}

FileSizeLimit::FileSizeLimit(std::uint64_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  before_ = limit.rlim_cur;
  limit.rlim_cur = bytes;
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

FileSizeLimit::~FileSizeLimit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = before_;
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

}  // namespace laconic::testing
