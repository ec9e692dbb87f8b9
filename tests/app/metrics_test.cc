#include "app/report/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/app/records.h"
#include "tests/checkpoint/scratch.h"
#include "tests/support/thrown.h"

namespace laconic::app::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::FileSizeLimit;
using testing::Scratch;
using testing::write_text;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Metrics, AreReadAsTheyWereWritten) {
  const Scratch scratch;
  StepRecord record = record_of(3);
  record.bad_blocks = 2;
  record.validation_loss = 0.25;
  record.validation_metric = 0.875;
  MetricsFile file(scratch / "metrics.jsonl");
  file.append(record_of(1));
  file.append(record);
  const auto read = read_metrics(scratch / "metrics.jsonl");  // before close: nothing waits
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].step, 1);
  EXPECT_FALSE(read[0].validation_loss);
  EXPECT_EQ(read[1].loss, record.loss);
  EXPECT_EQ(read[1].kind, "coded");
  EXPECT_EQ(read[1].bytes_total, 3000U);
  EXPECT_EQ(read[1].bad_blocks, 2);
  EXPECT_EQ(read[1].residual_ratio, 0.5);
  EXPECT_EQ(read[1].validation_loss, 0.25);
  EXPECT_EQ(read[1].validation_metric, 0.875);
}

TEST(Metrics, ALossThatIsNotFiniteIsNull) {
  const Scratch scratch;
  StepRecord record = record_of(1);
  record.loss = std::numeric_limits<double>::infinity();
  record.validation_loss = kNaN;
  MetricsFile(scratch / "m").append(record);
  const json line = json::parse(testing::read_text(scratch / "m"));
  EXPECT_TRUE(line.at("loss").is_null());
  const auto read = read_metrics(scratch / "m");
  EXPECT_TRUE(std::isnan(read.at(0).loss));
  ASSERT_TRUE(read[0].validation_loss);
  EXPECT_TRUE(std::isnan(*read[0].validation_loss));
}

TEST(Metrics, ALineTornByACrashIsLeftOutAtEveryByte) {
  const Scratch scratch;
  write_steps(scratch / "m", 2);
  const std::string whole = testing::read_text(scratch / "m");
  const std::size_t first = whole.find('\n') + 1;
  for (std::size_t size = first; size + 1 < whole.size(); ++size) {
    write_text(scratch / "m", whole.substr(0, size));
    EXPECT_EQ(read_metrics(scratch / "m").size(), 1U + (size == whole.size() - 1)) << size;
  }
}

TEST(Metrics, AnyOtherBadLineIsCorruptWithItsNumber) {
  const Scratch scratch;
  write_steps(scratch / "m", 3);
  const std::string whole = testing::read_text(scratch / "m");
  for (const std::string bad : {"{\"step\": 2", "[]", "7", "{\"step\": \"two\"}", "{}", ""}) {
    write_text(scratch / "m", whole.substr(0, whole.find('\n') + 1) + bad + "\n" + whole);
    expect_says(thrown([&] { read_metrics(scratch / "m"); }), Code::kCorrupt,
                {(scratch / "m").string(), "line 2"});
  }
}

TEST(Metrics, ResumeCutsBackToTheCheckpoint) {
  const Scratch scratch;
  write_steps(scratch / "m", 10);
  write_text(scratch / "m", testing::read_text(scratch / "m") + "{\"step\": 11, \"lo");
  MetricsFile file(scratch / "m", 4);
  file.append(record_of(5));
  const auto read = read_metrics(scratch / "m");
  ASSERT_EQ(read.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(read[i].step, static_cast<std::int64_t>(i) + 1);
  EXPECT_EQ(read[3].residual_ratio, 0.5);
}

TEST(Metrics, ResumeWithoutAFileStartsOneAndANewRunForgetsTheOld) {
  const Scratch scratch;
  MetricsFile(scratch / "m", 4).append(record_of(5));
  EXPECT_EQ(read_metrics(scratch / "m").size(), 1U);
  MetricsFile(scratch / "m").append(record_of(1));
  EXPECT_EQ(read_metrics(scratch / "m").at(0).step, 1);
}

TEST(Metrics, AFullDiskIsAnErrorThatNamesTheFile) {
  const Scratch scratch;
  MetricsFile file(scratch / "m");
  file.append(record_of(1));
  {
    const FileSizeLimit full(fs::file_size(scratch / "m") + 20);
    expect_says(thrown([&] { file.append(record_of(2)); }), Code::kFile,
                {(scratch / "m").string()});
  }
  EXPECT_EQ(read_metrics(scratch / "m").size(), 1U);
}

TEST(Metrics, AFullDiskAtResumeLeavesTheOldFile) {
  const Scratch scratch;
  write_steps(scratch / "m", 10);
  {
    const FileSizeLimit full(100);
    EXPECT_EQ(thrown_code([&] { MetricsFile(scratch / "m", 5); }), Code::kFile);
  }
  EXPECT_EQ(read_metrics(scratch / "m").size(), 10U);
}

TEST(Metrics, BitsPerParameterAreThoseOfTheDefinition) {
  // 4 ranks, dense fp32: each rank sends 2·(3/4)·4 bytes a parameter.
  EXPECT_DOUBLE_EQ(bits_per_parameter(1000 * 2 * 0.75 * 4, 1000, 4), 32);
  EXPECT_DOUBLE_EQ(bits_per_parameter(1000 * 4, 1000, 2), 32);
  EXPECT_EQ(bits_per_parameter(0, 1000, 1), 0);
}

}  // namespace
}  // namespace laconic::app::report
