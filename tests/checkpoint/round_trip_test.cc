#include <gtest/gtest.h>

#include "laconic/core/error.h"
#include "tests/checkpoint/fake_optimizer.h"
#include "tests/checkpoint/scratch.h"
#include "tests/support/ranks.h"

namespace laconic::testing {
namespace {

class Checkpoint : public ::testing::TestWithParam<int> {};

std::vector<int> few_ranks() {
  std::vector<int> counts = rank_counts();
  std::erase_if(counts, [](int n) { return n > 4; });
  return counts;
}

TEST_P(Checkpoint, ComesBackBitForBit) {
  for (const bool inside_interval : {false, true}) {
    const Scratch scratch;
    run_ranks(GetParam(), [&](Transport& transport) {
      FakeOptimizer saved(transport), loaded(transport);
      saved.fill(42, inside_interval);
      save_checkpoint(scratch / "run", saved, {{"position", "7 \"of\" 9"}});
      EXPECT_EQ(load_checkpoint(scratch / "run", loaded), Resume::kExact);
      EXPECT_EQ(loaded.bytes(), saved.bytes());
      EXPECT_EQ(loaded.restored_calls, 1);
      EXPECT_TRUE(loaded.redistributed.empty());
      EXPECT_EQ(loaded.stats().step, 42);

      const Manifest manifest = read_manifest(scratch / "run");
      EXPECT_EQ(manifest.step, 42);
      EXPECT_EQ(manifest.ranks, GetParam());
      EXPECT_EQ(manifest.elements, FakeOptimizer::kElements);
      EXPECT_EQ(manifest.algorithm, "zero-one-adam");
      EXPECT_EQ(manifest.config.at("variance_kappa"), "16");
      EXPECT_EQ(manifest.extra.at("position"), "7 \"of\" 9");
      EXPECT_EQ(manifest.groups.at(1).name, "biases");
      EXPECT_FALSE(manifest.groups.at(1).compress);
      EXPECT_EQ(manifest.files.size(), static_cast<std::size_t>(GetParam()) + 1);
    });
  }
}

TEST_P(Checkpoint, GivesEachRankItsOwnNumbersBack) {
  const Scratch scratch;
  run_ranks(GetParam(), [&](Transport& transport) {
    FakeOptimizer optimizer(transport);
    optimizer.fill(5, true);
    const double rank = transport.rank();
    const std::vector<double> own = {rank + 0.1, -rank, 1e300};
    save_checkpoint(scratch / "run", optimizer, {}, own);
    std::vector<double> back(3);
    EXPECT_EQ(load_checkpoint(scratch / "run", optimizer, back), Resume::kExact);
    EXPECT_EQ(back, own);
    std::vector<double> too_many(4);
    EXPECT_THROW(load_checkpoint(scratch / "run", optimizer, too_many), Error);
  });
}

TEST_P(Checkpoint, ReplacesTheOneBeforeAndLeavesNothingBeside) {
  const Scratch scratch;
  run_ranks(GetParam(), [&](Transport& transport) {
    FakeOptimizer optimizer(transport);
    for (const int step : {1, 2, 3}) {
      optimizer.fill(step, true);
      save_checkpoint(scratch / "run/", optimizer);
      EXPECT_EQ(read_manifest(scratch / "run").step, step);
    }
  });
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch / "run"), {}),
            GetParam() + 2);
}

// Of what every rank throws; the same code everywhere.
template <typename Call>
std::string message_of(Code code, Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST_P(Checkpoint, AFailureOnOneRankIsToldToAllAndTheOneBeforeStays) {
  const Scratch scratch;
  run_ranks(GetParam(), [&](Transport& transport) {
    FakeOptimizer optimizer(transport);
    optimizer.fill(1, false);
    save_checkpoint(scratch / "run", optimizer);
    optimizer.fill(2, true);
    // Not UTF-8: found when the last rank writes its file.
    if (transport.rank() + 1 == transport.size()) optimizer.rename_state("bucket1/\xff");
    const std::string message =
        message_of(Code::kInvalidArgument, [&] { save_checkpoint(scratch / "run", optimizer); });
    EXPECT_NE(message.find("rank " + std::to_string(transport.size() - 1)), std::string::npos)
        << message;
    FakeOptimizer before(transport), loaded(transport);
    before.fill(1, false);
    load_checkpoint(scratch / "run", loaded);
    EXPECT_EQ(loaded.bytes(), before.bytes());
    wait_for_all(transport);
  });
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
}

TEST_P(Checkpoint, AFullDiskLeavesTheOneBefore) {
  const Scratch scratch;
  run_ranks(GetParam(), [&](Transport& transport) {
    FakeOptimizer optimizer(transport);
    optimizer.fill(1, true);
    save_checkpoint(scratch / "run", optimizer);
  });
  {
    const FileSizeLimit limit(2000);
    run_ranks(GetParam(), [&](Transport& transport) {
      FakeOptimizer optimizer(transport);
      optimizer.fill(2, true);
      const std::string message =
          message_of(Code::kFile, [&] { save_checkpoint(scratch / "run", optimizer); });
      EXPECT_NE(message.find("File too large"), std::string::npos) << message;
      EXPECT_NE(message.find("rank00000.safetensors"), std::string::npos) << message;
    });
  }
  run_ranks(GetParam(), [&](Transport& transport) {
    FakeOptimizer saved(transport), loaded(transport);
    saved.fill(1, true);
    load_checkpoint(scratch / "run", loaded);
    EXPECT_EQ(loaded.bytes(), saved.bytes());
  });
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
}

TEST_P(Checkpoint, AnInterruptedSaveIsFoundAside) {
  const Scratch scratch;
  run_ranks(GetParam(), [&](Transport& transport) {
    FakeOptimizer saved(transport), loaded(transport);
    saved.fill(5, true);
    save_checkpoint(scratch / "run", saved);
    // As a crash between the two renames leaves it.
    if (transport.rank() == 0)
      std::filesystem::rename(scratch / "run", scratch / "run.laconic-old");
    wait_for_all(transport);
    load_checkpoint(scratch / "run", loaded);
    EXPECT_EQ(loaded.bytes(), saved.bytes());
    saved.fill(6, true);
    save_checkpoint(scratch / "run", saved);
    EXPECT_EQ(read_manifest(scratch / "run").step, 6);
  });
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
}

TEST_P(Checkpoint, NeverReplacesWhatIsNotACheckpoint) {
  const Scratch scratch;
  run_ranks(GetParam(), [&](Transport& transport) {
    if (transport.rank() == 0) {
      std::filesystem::create_directories(scratch / "home");
      write_text(scratch / "home/letters", "dear");
    }
    wait_for_all(transport);
    FakeOptimizer optimizer(transport);
    for (const char* taken : {"home", "home/letters"})
      message_of(Code::kInvalidArgument, [&] { save_checkpoint(scratch / taken, optimizer); });
    for (const char* impossible : {".", "/", "", ".."})
      message_of(Code::kInvalidArgument, [&] { save_checkpoint(impossible, optimizer); });
    message_of(Code::kFile, [&] { load_checkpoint(scratch / "home", optimizer); });
  });
  EXPECT_EQ(read_text(scratch / "home/letters"), "dear");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Checkpoint, ::testing::ValuesIn(few_ranks()),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace laconic::testing
