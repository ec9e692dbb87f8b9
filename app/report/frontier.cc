#include "app/report/frontier.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "app/report/results.h"

namespace laconic::app::report {
namespace {

using nlohmann::json;

struct Place {
  std::string name;
  double cost, loss;
};

bool beats(const Place& one, const Place& other) {
  return one.cost <= other.cost && one.loss <= other.loss &&
         (one.cost < other.cost || one.loss < other.loss);
}

template <typename Cost>
json names_on_frontier(const json& arms, const Cost& cost) {
  std::vector<Place> places;
  for (const json& arm : arms) {
    const auto loss = number_of(arm, "final_loss_mean"), price = cost(arm);
    if (loss && price) places.push_back({text_of(arm, "optimizer"), *price, *loss});
  }
  std::ranges::stable_sort(places, std::greater{}, &Place::cost);
  json names = json::array();
  for (const Place& place : places)
    if (std::ranges::none_of(places, [&](const Place& other) { return beats(other, place); }))
      names.push_back(place.name);
  return names;
}

}  // namespace

std::optional<double> time_of(const json& arm) {
  const auto computed = number_of(arm, "network_seconds");
  return computed ? computed : number_of(arm, "training_seconds");
}

json frontier_of(const json& arms) {
  const auto field = [](const char* name) {
    return [name](const json& arm) { return number_of(arm, name); };
  };
  return {{"bits", names_on_frontier(arms, field("bits_per_parameter_per_step"))},
          {"rounds", names_on_frontier(arms, field("rounds"))},
          {"seconds", names_on_frontier(arms, time_of)}};
}

std::string frontier_text(const json& comparison) {
  if (!comparison.contains("frontier") || !comparison.contains("arms")) return "";
  const json frontier = frontier_of(comparison["arms"]);
  std::string text = "On the frontier of validation loss against ";
  const char* before = "";
  for (const auto& [cost, shown] :
       {std::pair{"bits", "bits"}, {"rounds", "rounds"}, {"seconds", "time"}}) {
    const auto names = frontier.at(cost).get<std::vector<std::string>>();
    text += fmt::format("{}{}: {}", before, shown,
                        names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
    before = "; against ";
  }
  return text + ".";
}

}  // namespace laconic::app::report
