#include "app/report/format.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace laconic::app::report {
namespace {

// Three figures, never an exponent: 1.23, 12.3, 123, 1234.
std::string three_figures(double number) {
  const double size = std::abs(number);
  const int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : 2;
  std::string text = fmt::format("{:.{}f}", number, decimals);
  if (decimals > 0) text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; bytes >= 1023.5 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{} {}", three_figures(bytes), kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 0.9995e-3) return three_figures(seconds * 1e6) + " µs";
  if (seconds < 0.9995) return three_figures(seconds * 1e3) + " ms";
  if (seconds < 99.5) return three_figures(seconds) + " s";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string human_number(double number) {
  if (!std::isfinite(number)) return "not finite";
  const double size = std::abs(number);
  if (size >= 1e15 || (size < 1000 && number != std::floor(number)))
    return fmt::format("{:.4g}", number);
  const std::string digits = fmt::format("{:.0f}", size);
  std::string text = number < 0 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace laconic::app::report
