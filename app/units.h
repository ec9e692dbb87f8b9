#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "laconic/transport/emulated.h"

namespace laconic::app {

// "1gbit,50us": a rate in bit, kbit, mbit, gbit (a second) and an optional latency in us, ms or s.
// Throws Error(kInvalidArgument) with a right example.
Link parse_link(const std::string& text);

// Links of nodes: one for all ("1gbit,50us"), one for each with "/" between, or "@FILE" with a line for
// each, where "#" begins a comment. Throws as above, and Error(kFile).
std::vector<Link> parse_links(const std::string& text);

// "inter=100mbit..100gbit": rates in bytes per second. Throws as above.
struct RateRange {
  double from, to;
};
RateRange parse_sweep(const std::string& text);

// A count: "110000000", "1.1e8" or "110M" (K, M, B: thousands, millions, billions). Throws
// Error(kInvalidArgument) with right examples; `option` is named in it.
std::size_t parse_count(const std::string& text, const char* option);

// Bytes a second as "3.20 gbit/s"; seconds as "12 us".
std::string rate_text(double bytes_per_second);
std::string time_text(double seconds);

}  // namespace laconic::app
