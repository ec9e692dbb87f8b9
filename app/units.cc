#include "app/units.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <span>
#include <utility>

#include "laconic/core/error.h"

namespace laconic::app {
namespace {

using Unit = std::pair<const char*, double>;

constexpr Unit kRates[] = {
    {"gbit", 1e9 / 8}, {"mbit", 1e6 / 8}, {"kbit", 1e3 / 8}, {"bit", 1.0 / 8}};
constexpr Unit kTimes[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};

constexpr Unit kCounts[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}};

// A number of 0 or more with a unit; nothing where it is none.
std::optional<double> parsed(const std::string& text, std::span<const Unit> units) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && std::isfinite(number) && number >= 0)
    for (const auto& [name, factor] : units)
      if (std::string(end) == name) return number * factor;
  return {};
}

double parse(const std::string& text, std::span<const Unit> units, const char* what,
             const char* example) {
  if (const auto value = parsed(text, units)) return *value;
  fail(Code::kInvalidArgument, "\"{}\" is not a {}: write it like {}", text, what, example);
}

}  // namespace

Link parse_link(const std::string& text) {
  const std::size_t comma = text.find(',');
  Link link;
  link.bytes_per_second = parse(text.substr(0, comma), kRates, "rate", "100mbit or 1gbit,50us");
  if (!(link.bytes_per_second > 0))
    fail(Code::kInvalidArgument, "a rate of {} carries nothing: write it like 100mbit", text);
  if (comma != std::string::npos)
    link.latency_seconds = parse(text.substr(comma + 1), kTimes, "latency", "50us or 1ms");
  return link;
}

std::vector<Link> parse_links(const std::string& text) {
  std::string words = text;
  if (text.starts_with('@')) {
    std::ifstream file(text.substr(1));
    if (!file) fail(Code::kFile, "{}: cannot read this file", text.substr(1));
    words.clear();
    for (std::string line; std::getline(file, line);) {
      line.resize(std::min(line.size(), line.find('#')));
      std::erase_if(line, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
      if (!line.empty()) words += (words.empty() ? "" : "/") + line;
    }
  }
  std::vector<Link> links;
  for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
    end = words.find('/', at);
    links.push_back(parse_link(words.substr(at, end - at)));
  }
  return links;
}

RateRange parse_sweep(const std::string& text) {
  const std::string prefix = "inter=", dots = "..";
  const std::size_t at = text.find(dots);
  if (!text.starts_with(prefix) || at == std::string::npos)
    fail(Code::kInvalidArgument, "\"{}\" is not a sweep: write it like inter=100mbit..100gbit",
         text);
  const RateRange range{parse_link(text.substr(prefix.size(), at - prefix.size())).bytes_per_second,
                        parse_link(text.substr(at + dots.size())).bytes_per_second};
  if (!(range.from < range.to))
    fail(Code::kInvalidArgument,
         "a sweep from {} to {}: the first must be lower, as in inter=100mbit..100gbit",
         rate_text(range.from), rate_text(range.to));
  return range;
}

std::size_t parse_count(const std::string& text, const char* option) {
  constexpr double kMost = 1e15;            // of which doubles hold every whole number
  constexpr double kRoundingError = 1e-12;  // relative, of "1.1M"
  const double value = parsed(text, kCounts).value_or(0);
  const double whole = std::round(value);
  if (!(whole >= 1 && whole <= kMost && std::abs(value - whole) <= kRoundingError * whole))
    fail(Code::kInvalidArgument,
         "{} {}: give a whole number from 1 to 1e15, as in {} 110000000, 1.1e8 or 110M", option,
         text, option);
  return static_cast<std::size_t>(whole);
}

std::string rate_text(double bytes_per_second) {
  const double bits = 8 * bytes_per_second;
  return bits >= 1e9   ? fmt::format("{:.3g} gbit/s", bits / 1e9)
         : bits >= 1e6 ? fmt::format("{:.3g} mbit/s", bits / 1e6)
                       : fmt::format("{:.3g} kbit/s", bits / 1e3);
}

std::string time_text(double seconds) {
  return seconds >= 1      ? fmt::format("{:.3g} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.3g} ms", 1e3 * seconds)
                           : fmt::format("{:.3g} us", 1e6 * seconds);
}

}  // namespace laconic::app
