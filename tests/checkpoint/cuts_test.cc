#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "laconic/checkpoint/manifest.h"
#include "laconic/core/error.h"
#include "tests/checkpoint/scratch.h"
#include "tests/optim/training.h"
#include "tests/support/cut_calls.h"

namespace laconic::testing {
namespace {

namespace fs = std::filesystem;

// Both inside a local interval, so that weights differ over ranks.
constexpr std::int64_t kOld = 15, kNew = 17;

using Bytes = std::vector<std::map<std::string, std::string>>;  // of each rank

Training made(Transport& world) { return {short_config("zero-one-adam"), world, three_groups()}; }

// `cut` lives from when all ranks are about to save.
void save(const fs::path& path, int ranks, std::int64_t step, Cut cut = Cut::kNone,
          std::int64_t at = 0, int error = 0, std::vector<FileCall>* calls = nullptr) {
  std::optional<CutCalls> cutting;
  run_ranks(ranks, [&](Transport& world) {
    Training training = made(world);
    training.run_to(step);
    wait_for_all(world);
    if (world.rank() == 0) cutting.emplace(cut, at, error);
    wait_for_all(world);
    save_checkpoint(path, *training.optimizer);
  });
  if (calls != nullptr) *calls = cutting->made();
}

Bytes bytes_at(int ranks, std::int64_t step) {
  Bytes all(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Transport& world) {
    Training training = made(world);
    training.run_to(step);
    all[static_cast<std::size_t>(world.rank())] = bytes_of(training);
  });
  return all;
}

Bytes loaded(const fs::path& path, int ranks) {
  Bytes all(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Transport& world) {
    Training training = made(world);
    EXPECT_EQ(load_checkpoint(path, *training.optimizer), Resume::kExact);
    all[static_cast<std::size_t>(world.rank())] = bytes_of(training);
  });
  return all;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

struct CutCase {
  Cut cut;
  int ranks, error;
  const char* name;
};

class CutCheckpoint : public ::testing::TestWithParam<CutCase> {
 protected:
  static int ranks() { return GetParam().ranks; }

  // Saves the new one over the old one with the n-th call cut; true once nothing was cut. After a
  // failure its message is checked.
  bool goes_through(std::int64_t n) {
    fs::remove_all(scratch_ / "here");
    fs::create_directory(scratch_ / "here");
    fs::copy(scratch_ / "old", scratch_ / "here/run", fs::copy_options::recursive);
    return GetParam().error == 0 ? survives(n) : succeeds(n);
  }

  const Bytes& old_bytes() const { return old_; }
  const Bytes& new_bytes() const { return new_; }
  fs::path path() const { return scratch_ / "here/run"; }
  fs::path folder() const { return scratch_ / "here"; }

 private:
  void SetUp() override { save(scratch_ / "old", ranks(), kOld); }

  bool survives(std::int64_t n) const {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        save(path(), ranks(), kNew, GetParam().cut, n);
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kDied) << WEXITSTATUS(status);
    return WEXITSTATUS(status) == 0;
  }

  bool succeeds(std::int64_t n) const {
    std::vector<FileCall> calls;
    try {
      save(path(), ranks(), kNew, GetParam().cut, n, GetParam().error, &calls);
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.code(), Code::kFile) << message;
      EXPECT_NE(message.find(std::strerror(GetParam().error)), std::string::npos) << message;
      EXPECT_NE(message.find(folder().string()), std::string::npos) << message;
      return false;
    }
    return static_cast<std::int64_t>(calls.size()) < n;
  }

  Scratch scratch_;
  Bytes old_ = bytes_at(ranks(), kOld), new_ = bytes_at(ranks(), kNew);
};

TEST_P(CutCheckpoint, LeavesTheOldOneOrTheNewOneWhole) {
  bool renewed = false;
  for (std::int64_t n = 1;; ++n) {
    const bool through = goes_through(n);
    ASSERT_LT(n, 1000);
    const Bytes found = loaded(path(), ranks());
    ASSERT_TRUE(found == old_bytes() || found == new_bytes()) << "cut at call " << n;
    if (through) {
      EXPECT_EQ(found, new_bytes());
      EXPECT_GT(n, 30);
      break;
    }
    renewed |= found == new_bytes();
    if (ranks() == 1 && GetParam().cut != Cut::kFailOnce) {
      EXPECT_EQ(renewed, found == new_bytes()) << "cut at call " << n;
    }
    // What is left of the cut one is in nobody's way.
    if (ranks() > 1 && n % 4 != 0) continue;
    save(path(), ranks(), kNew);
    ASSERT_EQ(loaded(path(), ranks()), new_bytes()) << "after a cut at call " << n;
    ASSERT_EQ(names_in(folder()), std::vector<std::string>{"run"}) << "after a cut at call " << n;
    ASSERT_EQ(names_in(path()).size(), static_cast<std::size_t>(ranks()) + 2);
  }
  EXPECT_TRUE(renewed);
}

std::vector<CutCase> cases() {
  std::vector<CutCase> all;
  for (const int ranks : {1, 2}) {
    all.push_back({Cut::kDie, ranks, 0, "Killed"});
    all.push_back({Cut::kDieTorn, ranks, 0, "KilledInAWrite"});
    all.push_back({Cut::kFail, ranks, ENOSPC, "FullDisk"});
    all.push_back({Cut::kFail, ranks, EIO, "DeadDisk"});
    all.push_back({Cut::kFailOnce, ranks, EIO, "OneFailure"});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, CutCheckpoint, ::testing::ValuesIn(cases()), [](const auto& info) {
  return std::string(info.param.name) + "_" + std::to_string(info.param.ranks);
});

// A checkpoint that a save left aside is the only one until the next is whole, also where
// something made an empty folder in its place.
TEST(CutCheckpointAside, IsKeptUntilTheNextIsWhole) {
  const Scratch scratch;
  const Places places(scratch / "here/run");
  for (const bool empty_target : {false, true})
    for (std::int64_t n = 1;; ++n) {
      fs::remove_all(scratch / "here");
      save(places.aside, 1, kOld);
      if (empty_target) fs::create_directory(places.target);
      bool through = true;
      try {
        save(places.target, 1, kNew, Cut::kFail, n, EIO);
      } catch (const Error&) {
        through = false;
      }
      ASSERT_NO_THROW(loaded(places.target, 1)) << "cut at call " << n;
      if (through && fs::exists(places.aside)) continue;  // only removing the old one failed
      if (through) break;
    }
}

using Calls = std::vector<FileCall>;

Calls::const_iterator next(const Calls& calls, Calls::const_iterator from, const std::string& name,
                           const fs::path& path) {
  return std::find_if(from, calls.end(), [&](const FileCall& call) {
    return call.name == name && fs::path(call.path) == path;
  });
}

// Before a file or folder gets its name its contents are on the disk, and the name is before
// anything that it replaces goes.
TEST(SavedCheckpoint, IsMadeSafeBeforeItReplacesAnother) {
  const Scratch scratch;
  save(scratch / "run", 2, kOld);
  Calls calls;
  save(scratch / "run", 2, kNew, Cut::kNone, 0, 0, &calls);
  const Places places(scratch / "run");
  int files = 0;
  for (auto call = calls.begin(); call != calls.end(); ++call) {
    if (call->name != "rename" || !fs::path(call->path).has_extension()) continue;
    if (fs::path(call->path).extension() != ".laconic-tmp") continue;
    ++files;
    const auto synced = next(calls, calls.begin(), "fsync", call->path);
    EXPECT_LT(synced, call) << call->path;
    EXPECT_EQ(next(calls, synced, "write", call->path), calls.end()) << call->path;
    EXPECT_LT(next(calls, call, "fsync", places.fresh),
              next(calls, calls.begin(), "rename", places.fresh));
  }
  EXPECT_EQ(files, 4);
  const auto placed = next(calls, calls.begin(), "rename", places.fresh);
  ASSERT_NE(placed, calls.end());
  EXPECT_EQ(placed->to, places.target);
  const auto last = std::find_if(placed, calls.cend(), [&](const FileCall& call) {
    return call.name == "unlinkat" || call.name == "remove" || call.name == "rmdir";
  });
  ASSERT_NE(last, calls.end());
  EXPECT_LT(next(calls, placed, "fsync", places.parent), last);
}

TEST(SavedCheckpoint, MakesTheFoldersAboveItSafeToo) {
  const Scratch scratch;
  Calls calls;
  save(scratch / "a/b/run", 1, kOld, Cut::kNone, 0, 0, &calls);
  for (const fs::path& made : {scratch / "a", scratch / "a/b"}) {
    const auto call = next(calls, calls.begin(), "mkdir", made);
    ASSERT_NE(call, calls.end()) << made;
    EXPECT_NE(next(calls, call, "fsync", made.parent_path()), calls.end()) << made;
  }
}

TEST(SavedCheckpoint, IsReadableByThoseThatTheUsersUmaskLets) {
  for (const mode_t mask : {022U, 027U, 077U, 002U}) {
    const Scratch scratch;
    const mode_t before = ::umask(mask);
    save(scratch / "a/run", 2, kOld);
    ::umask(before);
    for (const auto& entry : fs::recursive_directory_iterator(scratch.path())) {
      struct stat status {};
      ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
      const mode_t whole = entry.is_directory() ? 0777U : 0666U;
      EXPECT_EQ(status.st_mode & 0777U, whole & ~mask) << entry.path();
    }
  }
}

}  // namespace
}  // namespace laconic::testing
