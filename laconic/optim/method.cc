#include "laconic/optim/method.h"

#include <algorithm>
#include <deque>

#include "laconic/core/error.h"
#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/spelling.h"

namespace laconic::inline optim {
namespace {

std::deque<Method>& registry() {
  static std::deque<Method> all = built_in_methods();
  return all;
}

}  // namespace

std::string Method::codec_of(const OptimizerConfig& config) const {
  return coded_with ? coded_with(config) : codec;
}

bool Method::exact_with(const OptimizerConfig& config) const {
  return exact && (!coded_with || is_exact(coded_with(config)));
}

std::string Method::dense_codec_of(const OptimizerConfig& config) const {
  if (dense_with) return dense_with(config);
  if (exact_with(config)) return codec_of(config);
  return config.bf16 ? "bf16" : "fp32";
}

namespace {

double bits_of(std::string codec, const OptimizerConfig& config) {
  return bits_per_element({.codec = std::move(codec),
                           .scale_block = config.scale_block,
                           .quant_block = config.quant_block});
}

}  // namespace

double Method::coded_bits(const OptimizerConfig& config) const {
  return bits_of(codec_of(config), config);
}
double Method::dense_bits(const OptimizerConfig& config) const {
  return bits_of(dense_codec_of(config), config);
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
  registry().push_back(std::move(method));
}

}  // namespace laconic::inline optim
