#include "app/training/comparison.h"

#include <gtest/gtest.h>

#include "laconic/core/error.h"

namespace laconic::app::training {
namespace {

using nlohmann::json;

FinishedRun finished(const char* optimizer, double final_loss, std::vector<double> validation,
                     double step_seconds) {
  FinishedRun run{optimizer,
                  {{"optimizer", optimizer},
                   {"final_loss", final_loss},
                   {"final_metric", 0.9},
                   {"rounds", 4},
                   {"seconds", step_seconds * static_cast<double>(validation.size())}},
                  {}};
  for (std::size_t i = 0; i < validation.size(); ++i) {
    report::StepRecord record;
    record.step = static_cast<std::int64_t>(i) + 1;
    record.step_seconds = step_seconds;
    record.seconds = step_seconds * static_cast<double>(i + 1);
    record.validation_loss = validation[i];
    record.validation_metric = 1 - validation[i] / 10;
    run.records.push_back(record);
  }
  return run;
}

TEST(Comparison, SeveralValuesOfAnOptionAreSeveralArms) {
  using Arms = std::vector<std::string>;
  EXPECT_EQ(combinations("adamw-bf16"), Arms{"adamw-bf16"});
  EXPECT_EQ(combinations("adamw/birder"), (Arms{"adamw", "birder"}));
  EXPECT_EQ(combinations("local-steps:codec=int4/sign:every=4/8"),
            (Arms{"local-steps:codec=int4:every=4", "local-steps:codec=int4:every=8",
                  "local-steps:codec=sign:every=4", "local-steps:codec=sign:every=8"}));
  EXPECT_EQ(combinations("lion/adamw:codec=int8"), (Arms{"lion:codec=int8", "adamw:codec=int8"}));
  EXPECT_EQ(combinations("adamw:codec=int8/"), (Arms{"adamw:codec=int8", "adamw:codec="}))
      << "an empty value is for the option to refuse";
}

TEST(Comparison, GivesMeanAndSpreadOverSeeds) {
  const json arm =
      summarize_arm({finished("adamw", 1.0, {3, 1}, 0.5), finished("adamw", 2.0, {3, 2}, 0.5)});
  EXPECT_EQ(arm["final_loss_mean"], 1.5);
  EXPECT_NEAR(arm["final_loss_spread"].get<double>(), std::sqrt(0.5), 1e-12);
  EXPECT_EQ(arm["final_metric_spread"], 0.0);
  EXPECT_EQ(arm["step_seconds"], 0.5);
  EXPECT_EQ(arm["runs"].size(), 2U);
}

TEST(Comparison, TellsWhenAnArmCameToTheBaselinesQuality) {
  const std::vector<std::vector<FinishedRun>> runs = {{finished("adamw", 1, {3, 2, 1}, 10)},
                                                      {finished("quick", 1, {2, 1.005, 1}, 1)},
                                                      {finished("never", 2, {3, 2.5, 2}, 1)}};
  json arms = json::array();
  for (const auto& one : runs) arms.push_back(summarize_arm(one));
  add_times_to_baseline(arms, runs, 0);
  EXPECT_EQ(arms[0]["seconds_to_baseline"], 30.0);
  EXPECT_EQ(arms[1]["steps_to_baseline"], 2);
  EXPECT_EQ(arms[1]["seconds_to_baseline"], 2.0);
  EXPECT_TRUE(arms[2]["seconds_to_baseline"].is_null());
}

TEST(Comparison, QualityIsTheAccuracyWhereThereIsOne) {
  std::vector<std::vector<FinishedRun>> runs = {{finished("adamw", 1, {3, 2, 1}, 10)},
                                                {finished("near", 1, {3, 2, 1.08}, 1)}};
  json arms = json::array();
  for (auto& one : runs) {
    one.front().summary["metric"] = "accuracy";
    arms.push_back(summarize_arm(one));
  }
  add_times_to_baseline(arms, runs, 0);
  EXPECT_EQ(arms[1]["steps_to_baseline"], 3) << "0.892 of 0.9, though the loss is 8 % higher";
}

TEST(Comparison, TellsWhenAnArmCameToATarget) {
  std::vector<std::vector<FinishedRun>> runs = {{finished("adamw", 1, {3, 2, 1}, 10)},
                                                {finished("quick", 1, {2, 1.5, 1}, 1)}};
  json arms = json::array();
  for (const auto& one : runs) arms.push_back(summarize_arm(one));
  EXPECT_EQ(arms[0]["training_seconds"], 30.0);
  add_times_to_target(arms, runs, {.loss = 1.6, .metric = {}});
  EXPECT_EQ(arms[0]["steps_to_target"], 3);
  EXPECT_EQ(arms[1]["seconds_to_target"], 2.0);
  add_times_to_target(arms, runs, {.loss = 0.5, .metric = {}});
  EXPECT_TRUE(arms[1]["seconds_to_target"].is_null()) << "an earlier target's time must not stay";
  for (auto& one : runs) one.front().summary["metric"] = "accuracy";
  add_times_to_target(arms, runs, {.loss = {}, .metric = 0.85});
  EXPECT_EQ(arms[1]["steps_to_target"], 2);
  for (auto& one : runs) one.front().summary["metric"] = "perplexity";
  add_times_to_target(arms, runs, {.loss = {}, .metric = 0.75});
  EXPECT_EQ(arms[0]["steps_to_target"], 1) << "a perplexity shall be low";
}

TEST(Target, IsANumberOrAShareAndFitsTheMetric) {
  EXPECT_EQ(parse_target("1.25", "--target-loss"), 1.25);
  EXPECT_DOUBLE_EQ(parse_target("84%", "--target-metric"), 0.84);
  for (const char* bad : {"", "x", "84 percent", "-1", "nan"})
    EXPECT_THROW(parse_target(bad, "--target-metric"), Error) << bad;
  EXPECT_NO_THROW(check_target({.loss = {}, .metric = 0.84}, "accuracy"));
  EXPECT_NO_THROW(check_target({.loss = {}, .metric = 84}, "perplexity"));
  EXPECT_THROW(check_target({.loss = {}, .metric = 84}, "accuracy"), Error);
}

TEST(Gate, ComparesWithTheBaselineOrWithANumber) {
  const json baseline = {{"optimizer", "adamw"},
                         {"final_loss_mean", 2.0},
                         {"final_metric_mean", 0.9},
                         {"bits_per_parameter_per_step", 32.0}};
  json arm = {{"optimizer", "birder"},
              {"final_loss_mean", 2.01},
              {"final_metric_mean", 0.897},
              {"bits_per_parameter_per_step", 1.1}};
  EXPECT_EQ(Gate("loss>+1%").violation(arm, baseline), "");
  EXPECT_EQ(Gate("accuracy<-0.005").violation(arm, baseline), "");
  EXPECT_EQ(Gate("bits>2").violation(arm, baseline), "");
  EXPECT_NE(Gate("loss>+0.4%").violation(arm, baseline).find("birder"), std::string::npos);
  EXPECT_NE(Gate("loss > 2.005").violation(arm, baseline), "");
  EXPECT_NE(Gate("accuracy<-0.001").violation(arm, baseline), "");
  arm["final_loss_mean"] = std::nan("");
  EXPECT_NE(Gate("loss>+1%").violation(arm, baseline), "");
}

TEST(Gate, RefusesWhatItDoesNotUnderstandWithAnExample) {
  for (const char* bad : {"loss", "loss=1", "lost>1", "loss>1x", "", "loss>+%"}) try {
      Gate gate(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("loss>+1%"), std::string::npos);
    }
}

}  // namespace
}  // namespace laconic::app::training
