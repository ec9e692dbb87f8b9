#include "app/report/comparison_table.h"

#include <fmt/format.h>

#include "app/report/format.h"
#include "app/report/frontier.h"
#include "app/report/results.h"
#include "app/report/text_table.h"

namespace laconic::app::report {
namespace {

using nlohmann::json;

// "bits, rounds": the costs by which no other arm is as cheap and as good.
std::string frontiers_with(const json& frontier, const std::string& arm) {
  std::string text;
  for (const char* cost : {"bits", "rounds", "seconds"})
    for (const json& name : frontier.at(cost))
      if (name == arm) text += fmt::format("{}{}", text.empty() ? "" : ", ", cost);
  return text;
}

}  // namespace

std::string comparison_table(const json& comparison, std::size_t width) {
  const json& arms = comparison.at("arms");
  const bool equal_time = number_of(comparison, "seconds_asked").has_value();
  const bool target =
      number_of(comparison, "target_loss") || number_of(comparison, "target_metric");
  const bool network = !text_of(comparison, "network").empty();
  const auto frontier = comparison.find("frontier");
  TextTable table;
  table.column("optimizer", 10);
  if (frontier != comparison.end()) table.column("on the frontier of", 9);
  table.column("loss", 5);
  table.column(arms[0]["metric"].get<std::string>(), 8);
  table.column("steps", equal_time ? 7 : 0);
  table.column("seconds", equal_time ? 6 : 0);
  if (network) table.column("on the network", 7);
  table.column("bits/parameter/step", 4);
  table.column("rounds", 1);
  table.column("bytes/rank", 3);
  table.column("step", 4);
  table.column("exposed", 2);
  table.column(target ? "to target" : "to baseline's", 6);
  for (const json& arm : arms) {
    const auto number = [&](const char* field) { return arm[field].get<double>(); };
    const std::string name = arm["optimizer"].get<std::string>();
    const char* reached = target ? "seconds_to_target" : "seconds_to_baseline";
    std::vector<std::string> row = {name};
    if (frontier != comparison.end()) row.push_back(frontiers_with(*frontier, name));
    row.push_back(
        fmt::format("{:.4f} ± {:.4f}", number("final_loss_mean"), number("final_loss_spread")));
    row.push_back(
        fmt::format("{:.4f} ± {:.4f}", number("final_metric_mean"), number("final_metric_spread")));
    row.push_back(fmt::format("{}", arm["steps"].get<std::int64_t>()));
    row.push_back(human_seconds(number("training_seconds")));
    if (network) row.push_back(human_seconds(number("network_seconds")));
    row.push_back(fmt::format("{:.3f}", number("bits_per_parameter_per_step")));
    row.push_back(fmt::format("{}", arm["rounds"].get<std::int64_t>()));
    row.push_back(human_bytes(number("bytes_sent_per_rank")));
    row.push_back(human_seconds(number("step_seconds")));
    row.push_back(human_seconds(number("exposed_seconds")));
    row.push_back(arm[reached].is_null() ? "not reached" : human_seconds(number(reached)));
    table.row(row);
  }
  return fmt::format("{}± is the standard deviation over {} seed(s){}\n", table.text(width),
                     comparison.at("seeds").size(),
                     target
                         ? ""
                         : fmt::format("; \"to baseline's\": within 1 % of {}'s last accuracy, or "
                                       "validation loss where there is none",
                                       text_of(comparison, "baseline")));
}

}  // namespace laconic::app::report
