#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "app/data/files.h"
#include "app/report/file.h"
#include "laconic/checkpoint/safetensors.h"
#include "laconic/core/error.h"
#include "tests/checkpoint/scratch.h"
#include "tests/support/cut_calls.h"

namespace laconic::testing {
namespace {

namespace fs = std::filesystem;

// Ways in which the command writes whole files.
struct Writer {
  const char* name;
  std::function<void(const fs::path&, int number)> write;
};

class WholeFile : public ::testing::TestWithParam<Writer> {};

void write_numbers(const fs::path& path, int number) {
  const std::vector<float> values(1000, static_cast<float>(number));
  write_safetensors(path, std::vector<Tensor>{{"values", std::span<const float>(values)}}, {});
}

void write_summary(const fs::path& path, int number) {
  app::report::replace_text(path, std::string(5000, static_cast<char>('a' + number)));
}

void write_cached(const fs::path& path, int number) {
  app::data::write_file(path, std::string(5000, static_cast<char>('a' + number)));
}

TEST_P(WholeFile, IsTheOldOneOrTheNewOneWhateverCallFails) {
  const Scratch scratch;
  const fs::path path = scratch / "file";
  GetParam().write(path, 1);
  const std::string old_text = read_text(path);
  GetParam().write(path, 2);
  const std::string new_text = read_text(path);
  for (const Cut cut : {Cut::kFail, Cut::kFailOnce})
    for (std::int64_t n = 1;; ++n) {
      write_text(path, old_text);
      bool threw = false, reached = false;
      {
        const CutCalls cutting(cut, n, ENOSPC);
        try {
          GetParam().write(path, 2);
        } catch (const Error& error) {
          threw = true;
          EXPECT_EQ(error.code(), Code::kFile);
          EXPECT_NE(std::string(error.what()).find(std::strerror(ENOSPC)), std::string::npos)
              << error.what();
        }
        reached = cutting.reached();
      }
      const std::string found = read_text(path);
      ASSERT_TRUE(found == new_text || (threw && found == old_text)) << "call " << n;
      if (cut == Cut::kFailOnce) {
        ASSERT_EQ(std::distance(fs::directory_iterator(scratch.path()), {}), 1) << "call " << n;
      }
      if (!reached) break;
      ASSERT_LT(n, 100);
      fs::remove_all(scratch.path());
      fs::create_directory(scratch.path());
    }
}

TEST_P(WholeFile, HasThePermissionsThatTheUsersUmaskLeaves) {
  const Scratch scratch;
  for (const mode_t mask : {022U, 027U, 077U}) {
    const mode_t before = ::umask(mask);
    GetParam().write(scratch / std::to_string(mask), 1);
    ::umask(before);
    struct stat status {};
    ASSERT_EQ(::stat((scratch / std::to_string(mask)).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0666U & ~mask);
  }
}

INSTANTIATE_TEST_SUITE_P(All, WholeFile,
                         ::testing::Values(Writer{"Model", write_numbers},
                                           Writer{"Summary", write_summary},
                                           Writer{"Cache", write_cached}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace laconic::testing
