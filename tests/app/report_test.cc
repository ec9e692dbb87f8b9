#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "app/report/comparison_table.h"
#include "app/report/curve.h"
#include "app/report/frontier.h"
#include "app/report/html.h"
#include "app/report/tensorboard.h"
#include "tests/app/records.h"
#include "tests/checkpoint/scratch.h"
#include "tests/support/thrown.h"

namespace laconic::app::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Scratch;
using testing::write_text;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(EventFile, ChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
}

TEST(EventFile, ANewOneNeverTouchesAnother) {
  const Scratch scratch;
  EventFile first(scratch / "events");
  first.append(1, {{"loss", 2.0}});
  const auto size = fs::file_size(first.path());
  const EventFile second(scratch / "events");
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(fs::file_size(first.path()), size);
}

json arm_of(const char* name, double loss, double bits, double rounds, double seconds) {
  return {{"optimizer", name},
          {"final_loss_mean", loss},
          {"bits_per_parameter_per_step", bits},
          {"rounds", rounds},
          {"training_seconds", seconds}};
}

TEST(Frontier, HasTheArmsThatNoOtherBeatsInBothTheDearestFirst) {
  json arms = {arm_of("exact", 1.0, 32, 100, 50), arm_of("cheap", 1.1, 1, 100, 20),
               arm_of("seldom", 1.2, 2, 10, 15), arm_of("poor", 1.3, 3, 100, 60)};
  EXPECT_EQ(frontier_of(arms), (json{{"bits", {"exact", "cheap"}},
                                     {"rounds", {"exact", "seldom"}},
                                     {"seconds", {"exact", "cheap", "seldom"}}}));
  arms.push_back(arm_of("twin", 1.1, 1, 100, 20));
  EXPECT_EQ(frontier_of(arms)["bits"], (json{"exact", "cheap", "twin"})) << "neither beats";
  arms.push_back(arm_of("lost", kNaN, 0.1, 1, 1));
  EXPECT_EQ(frontier_of(arms)["bits"].size(), 3U) << "a loss that is not finite is no result";
  arms[0]["network_seconds"] = 10;
  EXPECT_EQ(frontier_of(arms)["seconds"], json{"exact"}) << "the time on the network counts";
}

TEST(Frontier, IsNamedInASentenceWhereThereIsOne) {
  json comparison = {{"arms", {arm_of("a", 1.0, 32, 9, 50), arm_of("b", 1.1, 1, 9, 50)}}};
  EXPECT_EQ(frontier_text(comparison), "");
  comparison["frontier"] = frontier_of(comparison["arms"]);
  EXPECT_EQ(frontier_text(comparison),
            "On the frontier of validation loss against bits: a, b; against rounds: a; against "
            "time: a.");
}

TEST(Frontier, ATableMarksItsArms) {
  json arms = {arm_of("exact", 1.0, 32, 100, 50), arm_of("poor", 1.3, 33, 100, 60)};
  for (json& arm : arms)
    arm.update({{"metric", "accuracy"},
                {"final_loss_spread", 0.1},
                {"final_metric_mean", 0.5},
                {"final_metric_spread", 0.1},
                {"steps", 100},
                {"bytes_sent_per_rank", 9},
                {"step_seconds", 1},
                {"exposed_seconds", 0.5},
                {"seconds_to_baseline", nullptr}});
  json comparison = {{"arms", arms}, {"seeds", {1, 2}}, {"baseline", "exact"}};
  const std::string plain = comparison_table(comparison, std::string::npos);
  EXPECT_EQ(count(plain, "frontier"), 0U);
  EXPECT_EQ(count(plain, "over 2 seed(s)"), 1U);
  comparison["frontier"] = frontier_of(arms);
  EXPECT_EQ(count(comparison_table(comparison, std::string::npos), "bits, rounds, seconds"), 1U);
}

Curve line(std::size_t n) {
  Curve curve;
  for (std::size_t i = 0; i < n; ++i) curve.push_back({static_cast<double>(i), 0, 0, 1});
  return curve;
}

TEST(Curve, ThinningKeepsTheExtremesAndTheEnds) {
  Curve curve = line(10000);
  curve[3333].value = 50;
  curve[7777].value = -50;
  const Curve thinned = thin(curve, 100);
  EXPECT_LE(thinned.size(), 100U);
  double low = 0, high = 0;
  for (std::size_t i = 0; i < thinned.size(); ++i) {
    low = std::min(low, thinned[i].value);
    high = std::max(high, thinned[i].value);
    EXPECT_TRUE(i == 0 || thinned[i - 1].step < thinned[i].step) << i;
  }
  EXPECT_EQ(low, -50);
  EXPECT_EQ(high, 50);
  EXPECT_EQ(thinned.front().step, 0);
  EXPECT_EQ(thinned.back().step, 9999);
  EXPECT_EQ(thin(line(100), 100).size(), 100U);
}

TEST(Curve, ThinningKeepsAGap) {
  Curve curve = line(10000);
  curve[5000].value = kNaN;
  std::size_t gaps = 0;
  for (const Point& point : thin(curve, 50)) gaps += std::isnan(point.value) ? 1 : 0;
  EXPECT_EQ(gaps, 1U);
}

TEST(Curve, SmoothingIsTheMeanAroundAndKeepsTheStart) {
  Curve curve = line(1000);
  for (Point& point : curve) point.value = point.step;
  curve[500].value = kNaN;
  const Curve smoothed = smooth(curve, 0.02);
  EXPECT_NEAR(smoothed[100].value, 100, 1e-9);
  EXPECT_NEAR(smoothed[0].value, 0, 1e-9);
  EXPECT_NEAR(smoothed[999].value, 994, 1e-9);  // the last eleven: no raw value at the end
  EXPECT_TRUE(std::isnan(smoothed[500].value));
  EXPECT_TRUE(std::isfinite(smoothed[501].value));
  Curve zigzag = line(1000);
  for (std::size_t i = 0; i < 1000; ++i) zigzag[i].value = i % 2 == 0 ? 1 : -1;
  EXPECT_LT(std::abs(smooth(zigzag, 0.1)[500].value), 0.05);
}

TEST(Curve, TheMeanOfRunsIsOverTheStepsThatAllHave) {
  const Curve a{{1, 10, 1, 2}, {2, 20, 2, 4}}, b{{2, 40, 4, 8}, {3, 60, 6, 1}};
  const Curve both = mean({a, b});
  ASSERT_EQ(both.size(), 1U);
  EXPECT_EQ(both[0].step, 2);
  EXPECT_EQ(both[0].bytes, 30);
  EXPECT_EQ(both[0].seconds, 3);
  EXPECT_EQ(both[0].value, 6);
}

json run_summary(const std::string& optimizer) {
  return {{"optimizer", optimizer},
          {"task", "text"},
          {"model", "gpt2-mini"},
          {"final_loss", 1.5},
          {"final_metric", 4.5},
          {"metric", "perplexity"},
          {"seed", 1},
          {"ranks", 2},
          {"describe", "runs as threads"}};
}

fs::path make_run(const Scratch& scratch, const std::string& name, const json& summary,
                  std::int64_t steps = 20) {
  const fs::path folder = scratch / name;
  fs::create_directories(folder);
  write_steps(folder / "metrics.jsonl", steps);
  write_text(folder / "summary.json", summary.dump());
  return folder;
}

json arm_summary(const std::string& optimizer, double loss, const json& seconds) {
  json arm = run_summary(optimizer);
  arm["final_loss_mean"] = loss;
  arm["final_loss_spread"] = 0.01;
  arm["final_metric_mean"] = std::exp(loss);
  arm["final_metric_spread"] = 0.02;
  arm["bits_per_parameter_per_step"] = optimizer == "adamw" ? 32 : 1;
  arm["seconds_to_baseline"] = seconds;
  return arm;
}

Section section_of(const std::vector<json>& arms) {
  Section section;
  for (const json& arm : arms) section.arms.push_back({text_of(arm, "optimizer"), arm, {}});
  section.baseline = 0;
  return section;
}

// The table's row of an arm.
std::string row_of(const std::string& table, const std::string& name) {
  const std::size_t at = table.find("</span>" + name + " ");
  EXPECT_NE(at, std::string::npos) << name;
  return table.substr(at, table.find("</tr>", at) - at);
}

TEST(ReportTable, LossesStandAsPlainlyAsWins) {
  const std::string table = render_table(
      section_of({arm_summary("adamw", 1.50, 100.0), arm_summary("better", 1.45, 25.0),
                  arm_summary("alike", 1.505, 200.0), arm_summary("worse", 1.60, nullptr),
                  arm_summary("diverged", kNaN, nullptr)}));
  EXPECT_NE(row_of(table, "adamw").find("baseline"), std::string::npos);
  const std::string better = row_of(table, "better");
  EXPECT_NE(better.find("−3.33 %<br>better"), std::string::npos) << better;
  EXPECT_NE(better.find("32× less"), std::string::npos) << better;
  EXPECT_NE(better.find("4×"), std::string::npos) << better;
  const std::string alike = row_of(table, "alike");
  EXPECT_NE(alike.find("+0.33 %<br>within spread"), std::string::npos) << alike;
  EXPECT_NE(alike.find("<strong class=\"worse\">0.5×"), std::string::npos) << alike;
  const std::string worse = row_of(table, "worse");
  EXPECT_NE(worse.find("worse than baseline"), std::string::npos) << worse;
  EXPECT_NE(worse.find("+6.67 %<br>worse"), std::string::npos) << worse;
  EXPECT_NE(worse.find("not reached"), std::string::npos) << worse;
  EXPECT_NE(row_of(table, "diverged").find("not finite"), std::string::npos);
}

TEST(ReportPage, TextsCannotBreakOut) {
  const Scratch scratch;
  json summary = run_summary("</script><script>alert(1)</script>");
  summary["describe"] = "a \"quoted\" & <b>bold</b> 'line' {{data}}";
  summary["command"] = "laconic train --out <!-- {{style}}";
  const std::string page = render({make_run(scratch, "run", summary)});
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<b>bold"), std::string::npos);
  EXPECT_EQ(page.find("<!-- {{"), std::string::npos);
  EXPECT_EQ(count(page, "</script>"), 2U);
  EXPECT_NE(page.find("{{data}}"), std::string::npos);
  EXPECT_NE(page.find("&lt;!-- {{style}}"), std::string::npos);
}

TEST(ReportPage, LoadsNothing) {
  const Scratch scratch;
  const std::string page = render({make_run(scratch, "run", run_summary("adamw"))});
  for (const char* word :
       {"<script src", "<link rel=\"stylesheet", "@import", "https://", "fetch("})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
}

json data_of(const std::string& page) {
  const std::string mark = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(mark) + mark.size();
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(ReportPage, RunsOfOneTaskStandTogetherWithNamesThatDiffer) {
  const Scratch scratch;
  json other_seed = run_summary("adamw"), other_task = run_summary("birder");
  other_seed["seed"] = 2;
  other_task["task"] = "sst2";
  const json data = data_of(render(
      {make_run(scratch, "a", run_summary("adamw")), make_run(scratch, "b", other_seed),
       make_run(scratch, "c", other_task), make_run(scratch, "d", run_summary("zero-one-adam"))}));
  ASSERT_EQ(data.size(), 2U);
  ASSERT_EQ(data[0]["arms"].size(), 3U);
  EXPECT_EQ(data[0]["arms"][0]["name"], "adamw, seed 1");
  EXPECT_EQ(data[0]["arms"][1]["name"], "adamw, seed 2");
  EXPECT_EQ(data[0]["arms"][2]["name"], "zero-one-adam");
  EXPECT_EQ(data[1]["arms"][0]["name"], "birder");
  const json same = data_of(render({scratch / "a", scratch / "a/"}));
  EXPECT_EQ(same[0]["arms"][1]["name"], "adamw, seed 1 (a)");
}

TEST(ReportPage, SaysWhatAFolderLacks) {
  const Scratch scratch;
  expect_says(thrown([&] { render({scratch / "nothing"}); }), Code::kFile,
              {(scratch / "nothing").string(), "summary.json", "laconic train"});
  const fs::path run = make_run(scratch, "run", run_summary("adamw"));
  fs::remove(run / "metrics.jsonl");
  expect_says(thrown([&] { render({run}); }), Code::kFile, {run.string(), "metrics.jsonl"});
  for (const char* text :
       {"{\"optimizer\": ", "[1]", "{\"arms\": 3}", "{\"arms\": [{\"runs\": [3]}]}"}) {
    write_text(run / "summary.json", text);
    expect_says(thrown([&] { render({run}); }), Code::kCorrupt, {"summary.json"});
  }
}

}  // namespace
}  // namespace laconic::app::report
