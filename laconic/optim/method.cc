#include "laconic/optim/method.h"

#include <algorithm>
#include <deque>

#include "laconic/core/error.h"
#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/spelling.h"

namespace laconic::inline optim {
namespace {

// The method under a preset's name.
Method made_from(const Method& method, const Preset& preset) {
  Method same = method;
  same.name = preset.name;
  same.title = preset.title;
  same.summary = preset.summary;
  same.paper = preset.paper;
  same.python = preset.python;
  same.presets.clear();
  same.preset_of = method.name;
  for (Option& option : same.options)
    if (const auto found = preset.defaults.find(option.name); found != preset.defaults.end())
      option.by_default = found->second;
  OptimizerConfig config;
  for (const Option& option : same.options)
    if (!option.by_default.empty()) option.read(option, config, option.by_default);
  same.codec = same.codec_of(config);
  return same;
}

void add(std::deque<Method>& all, Method method) {
  const std::vector<Preset> presets = method.presets;
  all.push_back(std::move(method));
  const Method& base = all.back();
  for (const Preset& preset : presets) all.push_back(made_from(base, preset));
}

std::deque<Method>& registry() {
  static std::deque<Method> all = [] {
    std::deque<Method> methods;
    for (Method& one : built_in_methods()) add(methods, std::move(one));
    return methods;
  }();
  return all;
}

}  // namespace

std::string Method::codec_of(const OptimizerConfig& config) const {
  return coded_with ? coded_with(config) : codec;
}

std::string Method::codec_down_of(const OptimizerConfig& config) const {
  return down_with ? down_with(config) : "";
}

bool Method::exact_with(const OptimizerConfig& config) const {
  return exact && (!coded_with || is_exact(coded_with(config))) && choices_of(config).empty();
}

std::vector<std::string> Method::choices_of(const OptimizerConfig& config) const {
  if (!choices || config.exchange != ExchangeForm::kAuto || config.strict) return {};
  return choices(config);
}

std::string Method::dense_codec_of(const OptimizerConfig& config) const {
  if (dense_with) return dense_with(config);
  if (exact_with(config)) return codec_of(config);
  return config.bf16 ? "bf16" : "fp32";
}

namespace {

double bits_of(std::string codec, std::string down, const OptimizerConfig& config) {
  return bits_per_element({.codec = std::move(codec),
                           .codec_down = std::move(down),
                           .scale_block = config.scale_block,
                           .quant_block = config.quant_block,
                           .top_k = config.top_k});
}

}  // namespace

double Method::coded_bits(const OptimizerConfig& config) const {
  const std::string codec = codec_of(config);
  return bits_of(codec, is_exact(codec) ? "" : codec_down_of(config), config);
}
double Method::dense_bits(const OptimizerConfig& config) const {
  return bits_of(dense_codec_of(config), "", config);
}

std::vector<Option> Method::all_options() const {
  std::vector<Option> all(options);
  const auto shared = shared_options();
  all.insert(all.end(), shared.begin(), shared.end());
  return all;
}

const Option* Method::find(std::string_view wanted) const {
  for (const Option& one : options)
    if (one.name == wanted) return &one;
  for (const Option& one : shared_options())
    if (one.name == wanted) return &one;
  return nullptr;
}

std::vector<const Method*> methods() {
  std::vector<const Method*> all;
  for (const Method& one : registry()) all.push_back(&one);
  return all;
}

const Method& method_named(std::string_view name) {
  std::vector<std::string_view> names;
  std::string all;
  for (const Method& one : registry()) {
    if (spelled(one.name) == spelled(name)) return one;
    names.push_back(one.name);
    all += (all.empty() ? "" : ", ") + one.name;
  }
  fail(Code::kInvalidArgument, "there is no optimizer \"{}\": did you mean \"{}\"? There are {}",
       name, nearest(name, names), all);
}

void register_method(Method method) {
  if (method.name.empty() || !method.make_rule || !method.make_schedule || !method.rounds)
    fail(Code::kInvalidArgument,
         "the method \"{}\" is incomplete: give a name, make_rule, make_schedule and rounds",
         method.name);
  for (const Method& one : registry())
    if (spelled(one.name) == spelled(method.name))
      fail(Code::kInvalidArgument, "there is a method \"{}\" already: choose another name",
           method.name);
  add(registry(), std::move(method));
}

}  // namespace laconic::inline optim
