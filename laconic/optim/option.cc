#include "laconic/optim/option.h"

#include <charconv>
#include <vector>

#include "laconic/core/error.h"
#include "laconic/device/device.h"
#include "laconic/optim/spelling.h"

namespace laconic::inline optim {
namespace options {
namespace {

[[noreturn]] void refuse(const Option& option, std::string_view text) {
  std::vector<std::string_view> words;
  for (const Word& word : option.words) words.push_back(word.text);
  if (option.type == "choice")
    fail(Code::kInvalidArgument, "{} = \"{}\": did you mean \"{}\"? Give {}", option.name, text,
         nearest(text, words), option.allowed);
  if (spelled(text) == "auto")
    fail(Code::kInvalidArgument, "{} cannot be auto: give {}", option.name, option.allowed);
  fail(Code::kInvalidArgument, "{} = \"{}\": give {}", option.name, text, option.allowed);
}

template <typename T>
constexpr bool kIsNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

}  // namespace

template <typename T>
T parse(const Option& option, std::string_view text) {
  if constexpr (std::is_same_v<T, std::string>)
    return std::string(text);
  else
    for (const Word& word : option.words)
      if (spelled(word.text) == spelled(text)) return static_cast<T>(word.value);
  if constexpr (kIsNumber<T>) {
    T value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    // A special value is given by its word only: a freeze step of 0 is not "unset".
    if (error == std::errc{} && stop == end && !has_word(option, value)) return value;
  }
  refuse(option, text);
}

template <typename T>
std::string print(const Option& option, T value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else {
    for (const Word& word : option.words)
      if (static_cast<T>(word.value) == value) return std::string(word.text);
    if constexpr (kIsNumber<T>) return fmt::format("{}", value);
    return fmt::format("{}", static_cast<int>(value));
  }
}

#define LACONIC_OPTION_OF(T)                            \
  template T parse<T>(const Option&, std::string_view); \
  template std::string print<T>(const Option&, T)
LACONIC_OPTION_OF(bool);
LACONIC_OPTION_OF(int);
LACONIC_OPTION_OF(double);
LACONIC_OPTION_OF(std::int64_t);
LACONIC_OPTION_OF(std::uint32_t);
LACONIC_OPTION_OF(std::size_t);
LACONIC_OPTION_OF(ExchangeForm);
LACONIC_OPTION_OF(Feedback);
LACONIC_OPTION_OF(GradientCodec);
LACONIC_OPTION_OF(IntervalSchedule);
LACONIC_OPTION_OF(Outer);
LACONIC_OPTION_OF(std::string);
LACONIC_OPTION_OF(kernels::Norm);
LACONIC_OPTION_OF(RandomForm);
LACONIC_OPTION_OF(Skip);
#undef LACONIC_OPTION_OF

}  // namespace options

double own(const OptimizerConfig& config, std::string_view name, double fallback) {
  const auto found = config.own.find(name);
  return found == config.own.end() ? fallback : found->second;
}

Option own_number(std::string_view name, double fallback, std::string_view help) {
  Option all{name, "number", "a finite number", help};
  all.fallback = fallback;
  all.read = [](const Option& o, OptimizerConfig& c, std::string_view text) {
    c.own[std::string(o.name)] = options::parse<double>(o, text);
  };
  all.print = [](const Option& o, const OptimizerConfig& c) {
    return options::print(o, own(c, o.name, o.fallback));
  };
  all.fits = [](const Option& o, const OptimizerConfig& c) {
    return std::isfinite(own(c, o.name, o.fallback));
  };
  return all;
}

namespace {

using C = OptimizerConfig;

constexpr Word kSkips[] = {word("block", Skip::kBlock), word("step", Skip::kStep)};
constexpr Word kLength[] = {word("unset", kUnset), word("0", kUnset)};
constexpr Word kPlaces[] = {word("flat", kFlat), word("none", kFlat), word("auto", kAutoNodes)};

constexpr auto a_device = [](const std::string& v) { return names_device(v); };

constexpr Option kShared[] = {
    option<&C::weight_decay>("weight_decay", kFiniteFromZero, finite_from_zero,
                             "decoupled weight decay; groups may have their own"),
    option<&C::total_steps>("total_steps", "a whole number >= 0, or unset", from_zero,
                            "length of the run, from which schedules follow", kLength)
        .changeable()
        .in("steps"),
    option<&C::scale_block>(
        "scale_block", "0 (one scale per chunk) or a multiple of 64", whole_words,
        "elements that share a scale, and are left out together when one is not finite")
        .in("elements"),
    boolean<&C::bf16>("bf16", "send exact means as bf16"),
    option<&C::ranks_per_node>("ranks_per_node", "a whole number >= 1, flat or auto", from_one,
                               "exact means inside nodes of so many ranks, coded ones between "
                               "nodes; flat: coded between all ranks",
                               kPlaces)
        .changeable(),
    option<&C::bucket_elements>("bucket_elements", kFromOne, from_one,
                                "parameters that are exchanged at once")
        .in("elements"),
    option<&C::max_grad_norm>("max_grad_norm", kFiniteFromZero, finite_from_zero,
                              "clip gradients to this norm over all ranks; 0: never"),
    option<&C::skip>(
        "skip", "block or step", word_only,
        "what a gradient that is not finite stops: its scale block, or the step on all ranks",
        kSkips),
    option<&C::seed>("seed", "a whole number from 0 to 4294967295", any_value,
                     "key of the random numbers"),
    boolean<&C::strict>("strict",
                        "exchange = auto decides once, before the first coded step, and between "
                        "the configured codec and exact means only"),
    boolean<&C::guard>("guard", "let exact means replace coded ones for some steps"),
    option<&C::shadow_every>("shadow_every", kFromZero, from_zero,
                             "compare coded with exact means every so many steps; 0: never")
        .changeable()
        .in("steps"),
    option<&C::verify_every>("verify_every", kFromZero, from_zero,
                             "prove that replicas are equal every so many steps; 0: never")
        .changeable()
        .in("steps"),
    option<&C::threads>("threads", kFromOne, from_one, "threads of each rank").changeable(),
    option<&C::device>("device", "cpu, emulated, cuda or cuda:k", a_device,
                       "where passes over weights, gradients and state run: the same bits on all; "
                       "emulated: kernels for GPUs on the CPU, for tests")
        .changeable(),
};

}  // namespace

std::span<const Option> shared_options() { return kShared; }

}  // namespace laconic::inline optim
