#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

// Which arms of a comparison are worth their cost: those that no other arm beats in both, its cost
// and its validation loss.
namespace laconic::app::report {

// {"bits": […], "rounds": […], "seconds": […]}: the names on each frontier, the dearest first. An
// arm whose loss is missing or not finite is on none.
nlohmann::json frontier_of(const nlohmann::json& arms);

// What an arm cost in time: `network_seconds` where the comparison computed it, else its training.
std::optional<double> time_of(const nlohmann::json& arm);

// "On the frontier of loss against bits: adamw, …; …" of a comparison that has one, else empty.
std::string frontier_text(const nlohmann::json& comparison);

}  // namespace laconic::app::report
