#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "laconic/optim/method.h"
#include "python/optimizer.h"

namespace nb = nanobind;

namespace laconic::python {
namespace {

// The same fields as `laconic methods --json`.
nb::dict dict_of(const Option& option) {
  nb::list words;
  for (const Word& word : option.offered()) words.append(word.text);
  nb::dict all;
  all["name"] = option.name;
  all["type"] = option.type;
  all["default"] = option.default_text();
  all["allowed"] = option.allowed;
  all["words"] = words;
  all["unit"] = option.unit;
  all["may_change"] = option.may_change;
  all["help"] = option.help;
  return all;
}

nb::dict dict_of(const Method& method) {
  nb::list options;
  for (const Option& option : method.all_options()) options.append(dict_of(option));
  nb::dict all;
  all["name"] = method.name;
  all["title"] = method.title;
  all["summary"] = method.summary;
  all["paper"] = method.paper;
  all["exchanges"] = method.exchanges;
  all["codec"] = method.codec;
  all["exact"] = method.exact;
  all["synced_weights"] = method.synced_weights;
  all["preset_of"] = method.preset_of;
  all["python"] = method.python;
  all["aliases"] = method.aliases;
  all["python_defaults"] = method.defaults;
  all["options"] = options;
  return all;
}

nb::list list_of_methods() {
  nb::list all;
  for (const Method* method : methods()) all.append(dict_of(*method));
  return all;
}

}  // namespace

void bind_methods(nb::module_& module) { module.def("methods", &list_of_methods); }

}  // namespace laconic::python
