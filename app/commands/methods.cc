#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "app/commands/commands.h"
#include "laconic/optim/method.h"

namespace laconic::app::commands {
namespace {

using nlohmann::json;

struct MethodsOptions {
  bool json = false;
  std::string name;
};

json to_json(const Option& option) {
  json words = json::array();
  for (const Word& word : option.offered()) words.push_back(word.text);
  return {{"name", option.name},
          {"type", option.type},
          {"default", option.default_text()},
          {"allowed", option.allowed},
          {"words", words},
          {"unit", option.unit},
          {"may_change", option.may_change},
          {"help", option.help}};
}

json to_json(const Method& method) {
  json options = json::array();
  for (const Option& option : method.all_options()) options.push_back(to_json(option));
  return {{"name", method.name},
          {"title", method.title},
          {"summary", method.summary},
          {"paper", method.paper},
          {"exchanges", method.exchanges},
          {"codec", method.codec},
          {"exact", method.exact},
          {"synced_weights", method.synced_weights},
          {"preset_of", method.preset_of},
          {"python", method.python},
          {"aliases", method.aliases},
          {"python_defaults", method.defaults},
          {"options", options}};
}

void print(const Method& method) {
  fmt::print("{} ({})\n  {}\n  exchanges  {}\n  codec      {}\n  paper      {}\n", method.name,
             method.title, method.summary, method.exchanges, method.codec, method.paper);
  for (const Option& option : method.options)
    fmt::print("  {:<20} {:<10} {}\n", option.name, option.default_text(), option.help);
  fmt::print("\n");
}

void run(const MethodsOptions& options) {
  std::vector<const Method*> wanted = methods();
  if (!options.name.empty()) wanted = {&method_named(options.name)};
  if (options.json) {
    json all = json::array();
    for (const Method* method : wanted) all.push_back(to_json(*method));
    return fmt::print("{}\n", all.dump(1));
  }
  for (const Method* method : wanted) print(*method);
  fmt::print("All methods\n");
  for (const Option& option : shared_options())
    fmt::print("  {:<20} {:<10} {}\n", option.name, option.default_text(), option.help);
}

}  // namespace

void add_methods(CLI::App& app) {
  auto options = std::make_shared<MethodsOptions>();
  CLI::App* command = app.add_subcommand("methods", "What each optimizer does, and its options");
  command->footer(
      "MethodsOptions are set with --set optimizer.NAME=VALUE or in a config file.\n"
      "Examples:\n  laconic methods\n  laconic methods adamw --json");
  command->add_option("name", options->name, "Just this one");
  command->add_flag("--json", options->json, "An array of objects instead of text");
  command->callback([options] { run(*options); });
}

}  // namespace laconic::app::commands
