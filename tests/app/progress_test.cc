#include "app/report/progress.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <limits>

#include "app/report/format.h"
#include "tests/app/records.h"

namespace laconic::app::report {
namespace {

TEST(Format, IsWhatPeopleRead) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(131072), "128 KiB");
  EXPECT_EQ(human_bytes(1.5 * 1048576), "1.5 MiB");
  EXPECT_EQ(human_bytes(1048575), "1 MiB");
  EXPECT_EQ(human_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(human_seconds(12e-6), "12 µs");
  EXPECT_EQ(human_seconds(3.14159), "3.14 s");
  EXPECT_EQ(human_seconds(245), "4 min 05 s");
  EXPECT_EQ(human_seconds(7322), "2 h 02 min");
  EXPECT_EQ(human_number(1234567), "1,234,567");
  EXPECT_EQ(human_number(123), "123");
  EXPECT_EQ(human_number(-1234), "-1,234");
  EXPECT_EQ(human_number(0.53125), "0.5312");
  EXPECT_EQ(human_number(std::numeric_limits<double>::quiet_NaN()), "not finite");
}

class ProgressTest : public ::testing::Test {
 protected:
  // The text of a whole run, read back from the file it was written to.
  template <typename Run>
  std::string output(ProgressConfig config, const Run& run) {
    std::FILE* file = std::tmpfile();
    config.out = file;
    config.parameters = 1000;
    config.ranks = 2;
    config.now = [this] { return now_; };
    {
      Progress progress(config);
      run(progress);
    }
    std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
    std::rewind(file);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
    std::fclose(file);
    return text;
  }
  void steps(Progress& progress, std::int64_t from, std::int64_t to, double step_seconds) {
    for (std::int64_t step = from; step <= to; ++step) {
      now_ += step_seconds;
      progress.update(record_of(step));
    }
  }

  double now_ = 1000;
};

TEST_F(ProgressTest, SaysWhatThereIsToKnow) {
  const std::string text =
      output({.steps = 100}, [&](Progress& progress) { steps(progress, 1, 50, 0.5); });
  const std::string last = text.substr(text.rfind("step  50"));
  EXPECT_EQ(last,
            "step  50/100  loss 0.0400  2 steps/s  25 s left  1000 B/step  8.00 bits/parameter\n");
}

TEST_F(ProgressTest, PlainLinesAreTheFirstTheTenthsAndTheLast) {
  const std::string text =
      output({.steps = 1000}, [&](Progress& progress) { steps(progress, 1, 1000, 0.001); });
  EXPECT_EQ(count(text, "\n"), 11U);
  for (const char* line : {"step    1/1000", "step  100/1000", "step  900/1000", "step 1000/1000"})
    EXPECT_EQ(count(text, line), 1U) << line;
  EXPECT_EQ(count(text, "\r"), 0U);
  EXPECT_NE(text.find("took 1 s"), std::string::npos) << text;
}

TEST_F(ProgressTest, PlainLinesComeWhenItWasSilentForLong) {
  const std::string text =
      output({.steps = 1000}, [&](Progress& progress) { steps(progress, 1, 13, 1.0); });
  EXPECT_EQ(count(text, "\n"), 4U) << text;  // steps 1, 6, 11, and 13 at the end
  EXPECT_EQ(count(text, "step   13/1000"), 1U);
}

TEST_F(ProgressTest, ATerminalsLineIsRewrittenFiveTimesASecond) {
  const std::string text = output({.terminal = true, .steps = 4000},
                                  [&](Progress& progress) { steps(progress, 1, 2000, 0.001); });
  EXPECT_LE(count(text, "\r"), 12U);
  EXPECT_GE(count(text, "\r"), 9U);
  EXPECT_EQ(count(text, "\n"), 1U);
  EXPECT_NE(text.find("step 2000/4000"), std::string::npos);  // the newest, though not due
}

TEST_F(ProgressTest, WhatIsSaidStaysAboveTheLine) {
  const std::string text = output({.terminal = true, .steps = 10}, [&](Progress& progress) {
    steps(progress, 1, 1, 1);
    progress.say("checkpoint written");
  });
  EXPECT_NE(text.find("\r\x1b[Kcheckpoint written\n\rstep"), std::string::npos) << text;
}

TEST_F(ProgressTest, AResumedRunsRateIsThatOfItsOwnSteps) {
  const std::string text = output({.first_step = 90, .steps = 100},
                                  [&](Progress& progress) { steps(progress, 91, 95, 0.5); });
  EXPECT_EQ(count(text, "2 steps/s"), 2U) << text;
}

TEST_F(ProgressTest, TheRateForgetsASlowStart) {
  const std::string text = output({.steps = 1000}, [&](Progress& progress) {
    steps(progress, 1, 1, 100);
    steps(progress, 2, 200, 0.1);
  });
  EXPECT_NE(text.substr(text.rfind("step  200")).find("10 steps/s"), std::string::npos) << text;
}

}  // namespace
}  // namespace laconic::app::report
