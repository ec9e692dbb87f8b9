#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace laconic::app::report {

// The arms of a comparison's summary as a table for a terminal, and below it what its signs mean.
// Columns of less weight are left out where `width` letters do not hold them all.
std::string comparison_table(const nlohmann::json& comparison, std::size_t width);

}  // namespace laconic::app::report
