#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "laconic/checkpoint/manifest.h"
#include "laconic/checkpoint/seal.h"
#include "laconic/core/error.h"
#include "laconic/transport/threads.h"
#include "tests/checkpoint/fake_optimizer.h"
#include "tests/checkpoint/scratch.h"
#include "tests/support/ranks.h"

namespace laconic::testing {
namespace {

using Change = std::function<void(FakeOptimizer&)>;

void save(const std::filesystem::path& path, int ranks, const Change& change = {}) {
  run_ranks(ranks, [&](Transport& transport) {
    FakeOptimizer optimizer(transport);
    optimizer.fill(10, true);
    if (change) change(optimizer);
    save_checkpoint(path, optimizer);
  });
}

// Loads on every rank; the error of all, which must be one, after which memory is unchanged.
Error refusal(const std::filesystem::path& path, int ranks, const Change& change = {}) {
  std::vector<std::string> messages(static_cast<std::size_t>(ranks));
  Code code{};
  run_ranks(ranks, [&](Transport& transport) {
    FakeOptimizer optimizer(transport);
    if (change) change(optimizer);
    const auto before = optimizer.bytes();
    try {
      load_checkpoint(path, optimizer);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      messages[static_cast<std::size_t>(transport.rank())] = error.what();
      if (transport.rank() == 0) code = error.code();
    }
    EXPECT_EQ(optimizer.bytes(), before);
    EXPECT_EQ(optimizer.restored_calls, 0);
    EXPECT_TRUE(optimizer.redistributed.empty());
  });
  for (const std::string& message : messages) EXPECT_EQ(message, messages[0]);
  return {code, messages[0]};
}

void expect_words(const Error& error, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
        << "no " << word << " in: " << error.what();
}

std::vector<std::string> files_of(int ranks) {
  std::vector<std::string> names = {kManifestName, kSharedName};
  for (int r = 0; r < ranks; ++r) names.push_back(rank_file_name(r));
  return names;
}

// Where to damage a file: every byte of headers and manifests, samples of the rest.
std::vector<std::size_t> positions(const std::string& name, const std::string& whole) {
  std::uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  const std::size_t dense = name == kManifestName ? whole.size() : 8 + header;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < whole.size(); i += i < dense ? 1 : 509) all.push_back(i);
  all.push_back(whole.size() - 1);
  return all;
}

TEST(DamagedCheckpoint, NoFlippedBitGoesUnseen) {
  const Scratch scratch;
  save(scratch / "run", 1);
  const auto alone = std::move(make_threads(1).front());
  FakeOptimizer optimizer(*alone);
  const auto before = optimizer.bytes();
  for (const std::string& name : files_of(1)) {
    const auto path = scratch / "run" / name;
    const std::string whole = read_text(path);
    for (const std::size_t i : positions(name, whole)) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
      write_text(path, damaged);
      EXPECT_THROW(load_checkpoint(scratch / "run", optimizer), Error) << name << " at " << i;
      ASSERT_EQ(optimizer.bytes(), before) << name << " at " << i;
    }
    write_text(path, whole);
  }
  EXPECT_EQ(load_checkpoint(scratch / "run", optimizer), Resume::kExact);
}

TEST(DamagedCheckpoint, DamageToAnyRanksFileIsToldToAllRanks) {
  for (const int readers : {3, 2}) {
    const Scratch scratch;
    save(scratch / "run", 3);
    for (const std::string& name : files_of(3)) {
      const auto path = scratch / "run" / name;
      const std::string whole = read_text(path);
      for (const std::size_t length : {std::size_t{0}, std::size_t{7}, std::size_t{8},
                                       std::size_t{200}, whole.size() / 2, whole.size() - 1}) {
        write_text(path, whole.substr(0, length));
        const Error error = refusal(scratch / "run", readers);
        EXPECT_EQ(error.code(), Code::kCorrupt) << error.what();
        expect_words(error, {name, "rank "});
      }
      std::string flipped = whole;
      flipped[whole.size() - 3] = static_cast<char>(flipped[whole.size() - 3] ^ 4);
      write_text(path, flipped);
      expect_words(refusal(scratch / "run", readers), {name});
      std::filesystem::remove(path);
      const Error missing = refusal(scratch / "run", readers);
      EXPECT_EQ(missing.code(), Code::kFile) << missing.what();
      write_text(path, whole);
    }
  }
}

TEST(DamagedCheckpoint, AFileOfAnotherCheckpointIsRefused) {
  const Scratch scratch;
  save(scratch / "run", 2);
  save(scratch / "other", 2, [](FakeOptimizer& optimizer) { optimizer.fill(10, false); });
  std::filesystem::copy_file(scratch / "other" / rank_file_name(1),
                             scratch / "run" / rank_file_name(1),
                             std::filesystem::copy_options::overwrite_existing);
  const Error error = refusal(scratch / "run", 2);
  EXPECT_EQ(error.code(), Code::kCorrupt);
  expect_words(error, {rank_file_name(1), "manifest"});
}

// The manifest with one text replaced, under a seal that fits.
void forge(const std::filesystem::path& folder, const std::string& from, const std::string& to) {
  std::string text = read_text(folder / kManifestName);
  text.resize(text.size() - seal_length("\n}\n"));
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << text;
  write_text(folder / kManifestName, sealed(text.replace(at, from.size(), to), "\n}\n"));
}

TEST(DamagedCheckpoint, ANewerFormatAsksForANewerProgram) {
  const Scratch scratch;
  save(scratch / "run", 2);
  forge(scratch / "run", "\"format\": 1", "\"format\": 2");
  const Error error = refusal(scratch / "run", 2);
  EXPECT_EQ(error.code(), Code::kUnavailable) << error.what();
  expect_words(error, {"format 2", "format 1"});
}

TEST(DamagedCheckpoint, AManifestThatMakesNoSenseIsRefused) {
  const std::vector<std::pair<const char*, const char*>> forgeries = {
      {"\"format\": 1", "\"format\": \"1\""},     {"\"ranks\": 2", "\"ranks\": 2000000000"},
      {"\"ranks\": 2", "\"ranks\": -1"},          {"\"step\": 10", "\"step\": null"},
      {"\"step\": 10", "\"step\": 1e300"},        {"\"ranks\": 2", "\"ranks\": 4294967298"},
      {"\"elements\": 1000", "\"elements\": -1"}, {"rank00001", "../k00001"},
      {"\"groups\": [", "\"groups\": [3,"},       {"\"extra\": {}", "\"extra\": {\"a\": 1}"},
      {"\"extra\": {}", "\"extra\": {"},
  };
  for (const auto& [from, to] : forgeries) {
    const Scratch scratch;
    save(scratch / "run", 2);
    forge(scratch / "run", from, to);
    const Error error = refusal(scratch / "run", 2);
    EXPECT_EQ(error.code(), Code::kCorrupt) << error.what();
    expect_words(error, {kManifestName});
  }
}

struct Difference {
  Change change;
  std::vector<std::string> words;
};

TEST(OtherRun, WhatChangesTheMathematicsIsRefusedWithBothValues) {
  const Scratch scratch;
  save(scratch / "run", 2);
  const std::vector<Difference> differences = {
      {[](auto& o) { o.settings.algorithm = "birder"; }, {"zero-one-adam", "birder"}},
      {[](auto& o) { o.settings.variance_kappa = 8; }, {"variance_kappa", "16", "8"}},
      {[](auto& o) { o.settings.variance_freeze_step = 77; }, {"variance_freeze_step", "77"}},
      {[](auto& o) {
         o.settings.schedule = IntervalSchedule::kShort;
         o.settings.beta2 = 0.95;
       },
       {"beta2 = default (here 0.95), schedule = default (here short)"}},
      {[](auto& o) { o.settings.beta1 = 0.5; }, {"beta1", "0.9", "0.5"}},
      {[](auto& o) { o.settings.seed = 3; }, {"seed", "3"}},
      {[](auto& o) { o.settings.bucket_elements = 64; }, {"bucket_elements", "64"}},
      {[](auto& o) { o.mutable_model().weights = o.mutable_model().weights.first(999); },
       {"elements", "1000", "999"}},
      {[](auto& o) { o.mutable_model().groups.pop_back(); }, {"groups", "2", "1"}},
      {[](auto& o) { o.mutable_model().groups[1].name = "norms"; }, {"biases", "norms"}},
      {[](auto& o) { o.mutable_model().groups[0].elements = 601; }, {"600", "601"}},
      {[](auto& o) { o.mutable_model().groups[0].compress = false; }, {"compress"}},
      {[](auto& o) { o.rename_state("bucket0/other"); }, {"bucket0/other"}},
  };
  for (const Difference& difference : differences) {
    const Error error = refusal(scratch / "run", 2, difference.change);
    EXPECT_EQ(error.code(), Code::kInvalidArgument) << error.what();
    expect_words(error, difference.words);
  }
}

TEST(OtherRun, WhatDoesNotMayDiffer) {
  const Scratch scratch;
  save(scratch / "run", 2);
  run_ranks(2, [&](Transport& transport) {
    FakeOptimizer optimizer(transport);
    optimizer.settings.total_steps = 1234;
    optimizer.settings.threads = 2;
    optimizer.settings.verify_every = optimizer.settings.shadow_every = 5;
    optimizer.settings.momentum = 0.1;  // not read by 0/1 Adam
    EXPECT_EQ(load_checkpoint(scratch / "run", optimizer), Resume::kExact);
  });
}

TEST(OtherRun, RanksThatReadDifferentCheckpointsNotice) {
  const Scratch scratch;
  save(scratch / "run0", 2);
  save(scratch / "run1", 2, [](FakeOptimizer& optimizer) { optimizer.fill(11, true); });
  run_ranks(2, [&](Transport& transport) {
    FakeOptimizer optimizer(transport);
    const auto before = optimizer.bytes();
    EXPECT_THROW(load_checkpoint(scratch / ("run" + std::to_string(transport.rank())), optimizer),
                 Error);
    EXPECT_EQ(optimizer.bytes(), before);
  });
}

}  // namespace
}  // namespace laconic::testing
