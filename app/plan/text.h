#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "app/plan/arms.h"
#include "laconic/plan/recipes.h"

// The output of `laconic plan`: as a table, as JSON and as a page.
namespace laconic::app::plan {

struct Plan {
  std::string model;
  Scenario scenario;
  int shards = 0;                  // FSDP's, of each node; 0: whole models
  double batch = 0;                // samples per rank and step; 0: not given
  std::vector<std::string> notes;  // where figures come from
  std::vector<Arm> arms, best;
  std::vector<Point> sweep;  // of `best`
  std::string advice;
};

void print(const Plan& plan);
nlohmann::json to_json(const Plan& plan);
// A whole HTML page with a plot of the sweep; nothing is loaded from elsewhere.
std::string to_page(const Plan& plan);

void print(const laconic::plan::Recipe& recipe);
nlohmann::json to_json(const laconic::plan::Recipe& recipe);

}  // namespace laconic::app::plan
