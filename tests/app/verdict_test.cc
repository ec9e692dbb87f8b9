#include "app/report/verdict.h"

#include <gtest/gtest.h>

#include "app/report/text_table.h"

namespace laconic::app::report {
namespace {

using nlohmann::json;

json arm(const char* name, double accuracy, int steps, int coded, double seconds = 30) {
  return {{"optimizer", name},
          {"metric", "accuracy"},
          {"final_metric_mean", accuracy},
          {"steps", steps},
          {"coded_rounds", coded},
          {"final_metric_spread", 0},
          {"training_seconds", seconds}};
}

json comparison(json arms, const char* emulate = "100mbit") {
  return {{"seconds_asked", 30}, {"emulate", emulate}, {"baseline", "adamw"}, {"arms", arms}};
}

TEST(Verdict, SetsTheBestCodedArmAgainstTheBaseline) {
  EXPECT_EQ(verdict(comparison({arm("adamw", 0.74, 61, 0), arm("one-bit-adam", 0.8, 200, 160),
                                arm("birder", 0.841, 310, 310)})),
            "In 30 s at 100 Mbit/s birder took 310 steps and reached 84.1 %, adamw 61 steps and "
            "74.0 %.");
}

TEST(Verdict, SaysWhenTheBaselineWins) {
  EXPECT_EQ(verdict(comparison({arm("adamw", 0.9, 400, 0), arm("birder", 0.841, 310, 310),
                                arm("one-bit-adam", 0.7, 300, 240)},
                               "10gbit,50us")),
            "In 30 s at 10 Gbit/s and a latency of 50us adamw took 400 steps and reached 90.0 %, "
            "birder 310 steps and 84.1 %: here exact exchanges were better.");
}

TEST(Verdict, DoesNotHideAnExactArmThatIsBetterThanTheBaseline) {
  const std::string text =
      verdict(comparison({arm("adamw", 0.74, 61, 0), arm("adamw-bf16", 0.85, 120, 0),
                          arm("birder", 0.841, 310, 310)}));
  EXPECT_NE(text.find("adamw-bf16 took 120 steps and reached 85.0 %, birder 310"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("here exact exchanges were better"), std::string::npos) << text;
}

TEST(Verdict, NamesTheTimeOfAnArmThatUsedAnother) {
  const std::string text =
      verdict(comparison({arm("adamw", 0.74, 61, 0, 36), arm("birder", 0.84, 310, 310, 31)}));
  EXPECT_NE(text.find("adamw 61 steps and 74.0 % (it used 36 s)"), std::string::npos) << text;
  EXPECT_EQ(text.find("31 s"), std::string::npos) << text;
}

TEST(Verdict, ADifferenceWithinTheSpreadIsNone) {
  json arms = {arm("adamw", 0.84, 61, 0), arm("birder", 0.845, 310, 310)};
  arms[0]["final_metric_spread"] = 0.01;
  EXPECT_NE(verdict(comparison(arms)).find("no difference beyond the spread"), std::string::npos);
}

TEST(Verdict, IsSilentWhereTheStepsWereEqual) {
  json equal_steps = comparison({arm("adamw", 0.74, 61, 0), arm("birder", 0.84, 61, 61)});
  equal_steps["seconds_asked"] = nullptr;
  EXPECT_EQ(verdict(equal_steps), "");
  EXPECT_EQ(time_to_target(equal_steps), "");
}

TEST(Verdict, TellsEveryArmsTimeToTheTarget) {
  json all = comparison({arm("adamw", 0.74, 61, 0), arm("birder", 0.84, 310, 310)});
  all["target_metric"] = 0.8;
  all["arms"][0]["seconds_to_target"] = all["arms"][0]["steps_to_target"] = nullptr;
  all["arms"][1]["seconds_to_target"] = 9.1;
  all["arms"][1]["steps_to_target"] = 101;
  EXPECT_EQ(time_to_target(all),
            "An accuracy of 80.0 %: adamw not reached, birder after 9.1 s (101 steps).");
}

TEST(TextTable, LeavesOutTheLeastImportantColumnsAndNamesThem) {
  TextTable table;
  table.column("name", 0);
  table.column("loss", 2);
  table.column("rounds", 1);
  table.row({"adamw", "0.1 ± 0.2", "100"});
  EXPECT_EQ(table.text(80),
            "name        loss  rounds\n"
            "adamw  0.1 ± 0.2     100\n");
  EXPECT_EQ(table.text(20),
            "name        loss\n"
            "adamw  0.1 ± 0.2\n"
            "(too narrow for: rounds)\n");
  EXPECT_EQ(table.text(3).substr(0, 5), "name\n");
}

}  // namespace
}  // namespace laconic::app::report
