#pragma once

#include <string>

// Numbers as people read them, three figures or so.
namespace laconic::app::report {

std::string human_bytes(double bytes);      // 128 KiB
std::string human_seconds(double seconds);  // 12.3 ms, 4 min 05 s
std::string human_number(double number);    // 0.4213, 1,024

}  // namespace laconic::app::report
