#include "laconic/optim/config.h"

#include <vector>

#include "laconic/core/error.h"
#include "laconic/optim/method.h"
#include "laconic/optim/spelling.h"

namespace laconic::inline optim {
namespace {

constexpr std::string_view kAlgorithm = "algorithm";

// The option's own name, where `name` is an alias of it in some method.
std::string without_alias(const std::string& name) {
  for (const Method* method : methods()) {
    const auto found = method->aliases.find(name);
    if (found != method->aliases.end()) return found->second;
  }
  return name;
}

[[noreturn]] void refuse_name(std::string_view text) {
  std::vector<std::string_view> names = {kAlgorithm};
  for (const Method* method : methods()) {
    for (const Option& option : method->all_options()) names.push_back(option.name);
    for (const auto& [alias, name] : method->aliases) names.push_back(alias);
  }
  fail(Code::kInvalidArgument, "there is no option \"{}\": did you mean \"{}\"?", text,
       without_alias(std::string(nearest(text, names))));
}

// The method's own description of an option; another method's where it has none.
const Option& find(const OptimizerConfig& config, std::string_view text) {
  const std::string name = without_alias(spelled(text));
  if (const Option* option = method_named(config.algorithm).find(name)) return *option;
  for (const Method* method : methods())
    if (const Option* option = method->find(name)) return *option;
  refuse_name(text);
}

std::string coded_methods() {
  std::string names;
  for (const Method* method : methods())
    if (!method->exact && method->preset_of.empty())
      names += (names.empty() ? "" : ", ") + method->name;
  return names;
}

}  // namespace

OptimizerConfig validated(OptimizerConfig config) {
  const Method& method = method_named(config.algorithm);
  config.algorithm = method.name;
  for (const Option& option : method.all_options())
    if (!option.by_default.empty() && option.print(option, config) == kDefaultText)
      option.read(option, config, option.by_default);
  for (const Option& option : method.all_options())
    if (!option.fits(option, config))
      fail(Code::kInvalidArgument, "{} = {}: give {}", option.name, option.print(option, config),
           option.allowed);
  if (method.complete) method.complete(config);
  if (config.exchange == ExchangeForm::kAuto && method.exact_with(config))
    fail(Code::kInvalidArgument,
         "exchange = auto: {} always exchanges exact means{}, or choose one of {}", method.name,
         method.choices ? " with strict and this codec; leave strict out, give a lossy codec"
                        : "; leave it out",
         coded_methods());
  return config;
}

void set(OptimizerConfig& config, std::string_view field, std::string_view value) {
  if (spelled(field) == kAlgorithm) {
    config.algorithm = method_named(value).name;
    return;
  }
  const Option& option = find(config, field);
  option.read(option, config, value);
}

std::map<std::string, std::string> to_text(const OptimizerConfig& config) {
  std::map<std::string, std::string> text{{std::string(kAlgorithm), config.algorithm}};
  const auto add = [&](const Method& method) {
    for (const Option& option : method.all_options())
      text.emplace(option.name, option.print(option, config));
  };
  add(method_named(config.algorithm));
  for (const Method* method : methods()) add(*method);
  return text;
}

}  // namespace laconic::inline optim
