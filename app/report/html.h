#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "app/report/results.h"

namespace laconic::app::report {

// One page that needs nothing else and no network: curves, tables, commands and versions of the
// folders of runs and comparisons. Throws what read_results throws.
std::string render(const std::vector<std::filesystem::path>& folders);

// Text as HTML, in elements and in attributes.
std::string escape_html(std::string_view text);

// The table of a section: what each arm reached and what it cost, against the baseline.
std::string render_table(const Section& section);

}  // namespace laconic::app::report
