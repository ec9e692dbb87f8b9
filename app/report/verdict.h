#pragma once

#include <nlohmann/json.hpp>
#include <string>

// The result of a comparison in a sentence, from its summary.json (docs/reference/metrics.md), whichever arm it
// speaks for. Plain text.
namespace laconic::app::report {

// Of arms that had the same time: "In 30 s at 100 Mbit/s birder took 310 steps and reached 84.1 %,
// adamw 61 steps and 74.0 %." The best arm comes first; the baseline and the best coded arm are
// always in it. Empty where arms had the same number of steps.
std::string verdict(const nlohmann::json& comparison);

// "An accuracy of 80.0 %: birder after 9.1 s (101 steps), adamw not reached." Empty without a
// target.
std::string time_to_target(const nlohmann::json& comparison);

// "accuracy" 0.841 as "84.1 %", "perplexity" as "12.3".
std::string metric_text(const std::string& metric, double value);

}  // namespace laconic::app::report
