#include "laconic/optim/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "laconic/core/error.h"
#include "laconic/optim/spelling.h"

namespace laconic {
namespace {

using C = OptimizerConfig;

// Text that stands for a value: all there is of enums and booleans, and beside the numbers of
// others. Several may stand for one value; the first is printed.
struct Word {
  std::string_view text;
  std::int64_t value;
};

template <typename E>
constexpr Word word(std::string_view text, E value) {
  return {text, static_cast<std::int64_t>(value)};
}

constexpr Word kAlgorithms[] = {word("sgdm", Algorithm::kSgdm), word("adamw", Algorithm::kAdamW),
                                word("one-bit-adam", Algorithm::kOneBitAdam),
                                word("zero-one-adam", Algorithm::kZeroOneAdam),
                                word("birder", Algorithm::kBirder)};
constexpr Word kForms[] = {word("two-round", ExchangeForm::kTwoRound),
                           word("single-round", ExchangeForm::kSingleRound),
                           word("count", ExchangeForm::kCount), word("auto", ExchangeForm::kAuto)};
constexpr Word kNorms[] = {word("l2", kernels::Norm::kL2), word("l1", kernels::Norm::kL1)};
constexpr Word kSkips[] = {word("block", Skip::kBlock), word("step", Skip::kStep)};
constexpr Word kBooleans[] = {word("true", true), word("false", false)};
constexpr Word kLength[] = {word("unset", kUnset), word("0", kUnset)};
constexpr Word kUnsetOnly[] = {word("unset", kUnset)};
constexpr Word kUnsetOrAuto[] = {word("unset", kUnset), word("auto", kAuto)};
constexpr Word kPlaces[] = {word("flat", kFlat), word("none", kFlat), word("auto", kAutoNodes)};

constexpr unsigned uses(auto... algorithms) { return ((1U << static_cast<int>(algorithms)) | ...); }
constexpr unsigned kSgdm = uses(Algorithm::kSgdm), kBirder = uses(Algorithm::kBirder),
                   kOneBit = uses(Algorithm::kOneBitAdam), kZeroOne = uses(Algorithm::kZeroOneAdam),
                   kOneBits = kOneBit | kZeroOne, kAdams = kOneBits | uses(Algorithm::kAdamW),
                   kEvery = ~0U;

struct Field {
  std::string_view name, allowed;
  unsigned used_by;
  std::span<const Word> words;
  void (*read)(const Field&, C&, std::string_view);
  std::string (*print)(const Field&, const C&);
  bool (*fits)(const Field&, const C&);
};

[[noreturn]] void refuse(const Field& field, std::string_view text, bool word_only) {
  std::vector<std::string_view> words;
  for (const Word& word : field.words) words.push_back(word.text);
  if (word_only)
    fail(Code::kInvalidArgument, "{} = \"{}\": did you mean \"{}\"? Give {}", field.name, text,
         nearest(text, words), field.allowed);
  if (spelled(text) == "auto")
    fail(Code::kInvalidArgument, "{} cannot be auto: give {}", field.name, field.allowed);
  fail(Code::kInvalidArgument, "{} = \"{}\": give {}", field.name, text, field.allowed);
}

template <typename T>
constexpr bool kIsNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

bool has_word(const Field& field, std::int64_t value) {
  return std::ranges::find(field.words, value, &Word::value) != field.words.end();
}

template <typename T>
T parse(const Field& field, std::string_view text) {
  for (const Word& word : field.words)
    if (spelled(word.text) == spelled(text)) return static_cast<T>(word.value);
  if constexpr (kIsNumber<T>) {
    T value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    // What a word stands for is said by the word: a freeze step of 0 is not "unset".
    const bool hidden = !field.words.empty() && has_word(field, static_cast<std::int64_t>(value));
    if (error == std::errc{} && stop == end && !hidden) return value;
  }
  refuse(field, text, std::is_enum_v<T>);
}

template <typename T>
std::string print(const Field& field, T value) {
  for (const Word& word : field.words)
    if (word.value == static_cast<std::int64_t>(value)) return std::string(word.text);
  if constexpr (kIsNumber<T>) return fmt::format("{}", value);
  return fmt::format("{}", static_cast<int>(value));
}

// A value that is a word always fits.
template <auto kMember, typename Fits>
constexpr Field field(std::string_view name, unsigned used_by, std::string_view allowed, Fits,
                      std::span<const Word> words = {}) {
  using T = std::remove_cvref_t<decltype(std::declval<C>().*kMember)>;
  return {name,
          allowed,
          used_by,
          words,
          [](const Field& f, C& c, std::string_view text) { c.*kMember = parse<T>(f, text); },
          [](const Field& f, const C& c) { return print<T>(f, c.*kMember); },
          [](const Field& f, const C& c) {
            if (!f.words.empty() && has_word(f, static_cast<std::int64_t>(c.*kMember))) return true;
            return Fits{}(c.*kMember);
          }};
}

constexpr auto any = [](auto) { return true; };
constexpr auto word_only = [](auto) { return false; };
constexpr auto from_zero = [](auto v) { return v >= 0; };
constexpr auto from_one = [](auto v) { return v >= 1; };
constexpr auto finite_from_zero = [](double v) { return v >= 0 && std::isfinite(v); };
constexpr auto below_one = [](double v) { return v >= 0 && v < 1; };
// Epsilon meets vectors of floats.
constexpr auto positive_float = [](double v) {
  return static_cast<float>(v) > 0 && std::isfinite(static_cast<float>(v));
};
constexpr auto whole_words = [](std::size_t v) { return v % 64 == 0; };

constexpr const char* kBelowOne = "a number in [0, 1)";
constexpr const char* kFiniteFromZero = "a finite number >= 0";
constexpr const char* kFromZero = "a whole number >= 0";
constexpr const char* kFromOne = "a whole number >= 1";
constexpr const char* kTrueOrFalse = "true or false";

// The only list of fields.
constexpr Field kFields[] = {
    field<&C::algorithm>("algorithm", kEvery, "sgdm, adamw, one-bit-adam, zero-one-adam or birder",
                         word_only, kAlgorithms),
    field<&C::weight_decay>("weight_decay", kEvery, kFiniteFromZero, finite_from_zero),
    field<&C::total_steps>("total_steps", kEvery, "a whole number >= 0, or unset", from_zero,
                           kLength),
    field<&C::momentum>("momentum", kSgdm, kBelowOne, below_one),
    field<&C::beta1>("beta1", kAdams, kBelowOne, below_one),
    field<&C::beta2>("beta2", kAdams, kBelowOne, below_one),
    field<&C::epsilon>("epsilon", kAdams, "a number > 0 that a float can hold", positive_float),
    field<&C::bias_correction>("bias_correction", kAdams, kTrueOrFalse, any, kBooleans),
    field<&C::variance_floor>("variance_floor", kOneBits, kFiniteFromZero, finite_from_zero),
    field<&C::freeze_step>("freeze_step", kOneBit,
                           "a whole number >= 1, auto, or unset with total_steps (a freeze step "
                           "below 1 would leave no variance to divide by)",
                           from_one, kUnsetOrAuto),
    field<&C::variance_freeze_step>("variance_freeze_step", kZeroOne,
                                    "a whole number >= 1, or unset with total_steps (a freeze step "
                                    "below 1 would leave no variance to divide by)",
                                    from_one, kUnsetOnly),
    field<&C::variance_kappa>("variance_kappa", kZeroOne, kFromOne, from_one),
    field<&C::double_every>("double_every", kZeroOne,
                            "a whole number >= 1, auto, or unset with total_steps", from_one,
                            kUnsetOrAuto),
    field<&C::max_interval>("max_interval", kZeroOne, kFromOne, from_one),
    field<&C::beta>("beta", kBirder, kBelowOne, below_one),
    field<&C::exchange>("exchange", kBirder, "two-round, single-round, count or auto", word_only,
                        kForms),
    field<&C::strict>("strict", kEvery, kTrueOrFalse, any, kBooleans),
    field<&C::guard>("guard", kEvery, kTrueOrFalse, any, kBooleans),
    field<&C::scale_block>("scale_block", kEvery, "0 (one scale a chunk) or a multiple of 64",
                           whole_words),
    field<&C::scale_norm>("scale_norm", kEvery, "l2 or l1", word_only, kNorms),
    field<&C::bf16>("bf16", kEvery, kTrueOrFalse, any, kBooleans),
    field<&C::ranks_per_node>("ranks_per_node", kEvery, "a whole number >= 1, flat or auto",
                              from_one, kPlaces),
    field<&C::bucket_elements>("bucket_elements", kEvery, kFromOne, from_one),
    field<&C::max_grad_norm>("max_grad_norm", kEvery, kFiniteFromZero, finite_from_zero),
    field<&C::skip>("skip", kEvery, "block or step", word_only, kSkips),
    field<&C::seed>("seed", kEvery, "a whole number from 0 to 4294967295", any),
    field<&C::shadow_every>("shadow_every", kEvery, kFromZero, from_zero),
    field<&C::verify_every>("verify_every", kEvery, kFromZero, from_zero),
    field<&C::threads>("threads", kEvery, kFromOne, from_one),
};

constexpr struct {
  std::string_view deepspeed, name;
} kAliases[] = {
    {"var_freeze_step", "variance_freeze_step"},
    {"var_update_scaler", "variance_kappa"},
    {"local_step_scaler", "double_every"},
    {"local_step_clipper", "max_interval"},
};

std::string_view without_alias(std::string_view name) {
  for (const auto& alias : kAliases)
    if (alias.deepspeed == name) return alias.name;
  return name;
}

const Field& find(std::string_view text) {
  const std::string spelling = spelled(text);
  const std::string_view name = without_alias(spelling);
  const auto* found = std::ranges::find(kFields, name, &Field::name);
  if (found != std::end(kFields)) return *found;
  std::vector<std::string_view> names;
  for (const Field& each : kFields) names.push_back(each.name);
  for (const auto& alias : kAliases) names.push_back(alias.deepspeed);
  fail(Code::kInvalidArgument, "there is no option \"{}\": did you mean \"{}\"?", text,
       without_alias(nearest(text, names)));
}

// What follows from the run's length, where nothing was said.
void fill(std::int64_t& steps, const C& config, const char* name, std::int64_t from_length) {
  if (steps != kUnset) return;
  if (config.total_steps == kUnset)
    fail(Code::kInvalidArgument, "{} has neither {} nor total_steps: give one of them",
         laconic::name(config.algorithm), name);
  steps = std::max<std::int64_t>(1, from_length);
}

std::int64_t percent(const C& config, int share) {
  return std::llround(static_cast<double>(config.total_steps) * share / 100);
}

}  // namespace

const char* name(Algorithm algorithm) noexcept {
  for (const Word& word : kAlgorithms)
    if (word.value == static_cast<std::int64_t>(algorithm)) return word.text.data();
  return "unknown algorithm";
}

OptimizerConfig validated(OptimizerConfig config) {
  for (const Field& field : kFields) {
    const bool used = field.used_by == kEvery || (field.used_by & uses(config.algorithm)) != 0;
    if (used && !field.fits(field, config))
      fail(Code::kInvalidArgument, "{} = {}: give {}", field.name, field.print(field, config),
           field.allowed);
  }
  const bool codes = ((kOneBits | kBirder) & uses(config.algorithm)) != 0;
  if (config.exchange == ExchangeForm::kAuto && !codes)
    fail(Code::kInvalidArgument,
         "exchange = auto: {} always exchanges exact means; leave it out, or choose one-bit-adam, "
         "zero-one-adam or birder",
         name(config.algorithm));
  if (config.algorithm == Algorithm::kOneBitAdam)
    fill(config.freeze_step, config, "freeze_step", percent(config, 20));
  if (config.algorithm == Algorithm::kZeroOneAdam) {
    fill(config.variance_freeze_step, config, "variance_freeze_step", percent(config, 15));
    fill(config.double_every, config, "double_every",
         (config.total_steps - config.variance_freeze_step) / 6);
  }
  return config;
}

void set(OptimizerConfig& config, std::string_view field, std::string_view value) {
  const Field& found = find(field);
  found.read(found, config, value);
}

std::map<std::string, std::string> to_text(const OptimizerConfig& config) {
  std::map<std::string, std::string> text;
  for (const Field& field : kFields) text.emplace(field.name, field.print(field, config));
  return text;
}

}  // namespace laconic
