#pragma once

#include <cstddef>
#include <string>

namespace laconic::app::plan {

// Parameters of a model by its name. Throws Error(kInvalidArgument) with the names that exist.
std::size_t parameters_of(const std::string& model);

}  // namespace laconic::app::plan
