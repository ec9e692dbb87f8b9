#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "laconic/optim/config.h"

// Options of optimizers: described once, and read by configuration files, command lines, Python,
// checkpoints and the reference.
namespace laconic::inline optim {

// Text that stands for a value: all values of enums and booleans, and special ones of numbers
// ("auto"). Several may stand for one value; the first is printed.
struct Word {
  std::string_view text;
  std::int64_t value;
};
template <typename E>
constexpr Word word(std::string_view text, E value) {
  return {text, static_cast<std::int64_t>(value)};
}

inline constexpr std::string_view kText = "text";

// One option. Its value lies in a member of OptimizerConfig, or, made with own_number(), in
// OptimizerConfig::own.
struct Option {
  std::string_view name;
  std::string_view type;     // "number", "integer", "boolean", "choice" or kText
  std::string_view allowed;  // for messages: "a number in [0, 1)"
  std::string_view help;     // one line without a full stop
  std::string_view unit = "";
  bool may_change = false;  // a resume may give another value
  std::span<const Word> words = {};
  double fallback = 0;               // own_number() only
  std::string_view by_default = "";  // what "default" stands for in this method
  std::span<const Word> taken = {};  // of `words`, those that this method takes; empty: all

  void (*read)(const Option&, OptimizerConfig&, std::string_view text) = nullptr;
  std::string (*print)(const Option&, const OptimizerConfig&) = nullptr;
  bool (*fits)(const Option&, const OptimizerConfig&) = nullptr;

  std::string default_text() const {
    return by_default.empty() ? print(*this, OptimizerConfig{}) : std::string(by_default);
  }
  std::span<const Word> offered() const { return taken.empty() ? words : taken; }
  constexpr Option taking(std::span<const Word> some) const {
    Option same = *this;
    same.taken = some;
    return same;
  }
  constexpr Option otherwise(std::string_view value) const {
    Option same = *this;
    same.by_default = value;
    return same;
  }
  constexpr Option changeable() const {
    Option same = *this;
    same.may_change = true;
    return same;
  }
  constexpr Option in(std::string_view of_unit) const {
    Option same = *this;
    same.unit = of_unit;
    return same;
  }
};

// Which values are allowed. A value that is a word always is.
inline constexpr auto any_value = [](auto) { return true; };
inline constexpr auto word_only = [](auto) { return false; };
inline constexpr auto from_zero = [](auto v) { return v >= 0; };
inline constexpr auto from_one = [](auto v) { return v >= 1; };
inline constexpr auto finite_from_zero = [](double v) { return v >= 0 && std::isfinite(v); };
inline constexpr auto below_one = [](double v) { return v >= 0 && v < 1; };
// Meets vectors of floats.
inline constexpr auto positive_float = [](double v) {
  return static_cast<float>(v) > 0 && std::isfinite(static_cast<float>(v));
};
inline constexpr auto whole_words = [](std::size_t v) { return v % 64 == 0; };

inline constexpr Word kBooleans[] = {word("true", true), word("false", false)};
inline constexpr Word kUnsetOnly[] = {word("unset", kUnset)};
inline constexpr Word kByMethod[] = {word(kDefaultText, kDefault)};
inline constexpr Word kUnsetOrAuto[] = {word("unset", kUnset), word("auto", kAuto)};
inline constexpr Word kForms[] = {
    word("two-round", ExchangeForm::kTwoRound), word("single-round", ExchangeForm::kSingleRound),
    word("count", ExchangeForm::kCount), word("auto", ExchangeForm::kAuto)};
// Of these, what methods without random signs have. The others are two-round there.
inline constexpr Word kTwoRoundOrAuto[] = {kForms[0], kForms[3]};

inline constexpr std::string_view kBelowOne = "a number in [0, 1)";
inline constexpr std::string_view kFiniteFromZero = "a finite number >= 0";
inline constexpr std::string_view kFromZero = "a whole number >= 0";
inline constexpr std::string_view kFromOne = "a whole number >= 1";
inline constexpr std::string_view kTrueOrFalse = "true or false";

namespace options {

// For the types of members. Error(kInvalidArgument) with what is allowed.
template <typename T>
T parse(const Option& option, std::string_view text);
template <typename T>
std::string print(const Option& option, T value);
template <typename T>
bool has_word(const Option& option, T value) {
  for (const Word& word : option.words)
    if (static_cast<T>(word.value) == value) return true;
  return false;
}

template <typename T>
constexpr std::string_view type_of() {
  if constexpr (std::is_same_v<T, bool>)
    return "boolean";
  else if constexpr (std::is_same_v<T, std::string>)
    return kText;
  else if constexpr (std::is_enum_v<T>)
    return "choice";
  else if constexpr (std::is_floating_point_v<T>)
    return "number";
  else
    return "integer";
}

}  // namespace options

// The option whose value is a member of OptimizerConfig.
template <auto kMember, typename Fits>
constexpr Option option(std::string_view name, std::string_view allowed, Fits,
                        std::string_view help, std::span<const Word> words = {}) {
  using T = std::remove_cvref_t<decltype(std::declval<OptimizerConfig>().*kMember)>;
  Option all{name, options::type_of<T>(), allowed, help};
  all.words = words;
  all.read = [](const Option& o, OptimizerConfig& c, std::string_view text) {
    c.*kMember = options::parse<T>(o, text);
  };
  all.print = [](const Option& o, const OptimizerConfig& c) {
    return options::print<T>(o, c.*kMember);
  };
  all.fits = [](const Option& o, const OptimizerConfig& c) {
    if constexpr (!std::is_same_v<T, std::string>)
      if (options::has_word(o, c.*kMember)) return true;
    return Fits{}(c.*kMember);
  };
  return all;
}
template <auto kMember>
constexpr Option boolean(std::string_view name, std::string_view help) {
  return option<kMember>(name, kTrueOrFalse, any_value, help, kBooleans);
}

// An option of a method outside the library: a finite number, read with own().
Option own_number(std::string_view name, double fallback, std::string_view help);
double own(const OptimizerConfig& config, std::string_view name, double fallback);

// Those that every method has.
std::span<const Option> shared_options();

}  // namespace laconic::inline optim
