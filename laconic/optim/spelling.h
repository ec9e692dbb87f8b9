#pragma once

#include <span>
#include <string>
#include <string_view>

namespace laconic::inline optim {

// Names that people type are compared in this form: lower case, "-" as "_".
std::string spelled(std::string_view text);

// The name with the least edit distance to `text`, the first of equals. REQUIRES: names not empty.
std::string_view nearest(std::string_view text, std::span<const std::string_view> names);

}  // namespace laconic::inline optim
