#pragma once

#include <string>

#include "laconic/transport/emulated.h"

namespace laconic::app {

// "1gbit,50us": a rate in bit, kbit, mbit, gbit (a second) and an optional latency in us, ms or s.
// Throws Error(kInvalidArgument) with a right example.
Link parse_link(const std::string& text);

}  // namespace laconic::app
