#include "app/commands/help.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "laconic/optim/spelling.h"

namespace laconic::app::commands {
namespace {

constexpr std::size_t kColumn = 32;  // where descriptions begin

class ExamplesFirst : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    if (mode == CLI::AppFormatMode::Sub) return make_expanded(app);
    std::string text = make_description(app) + make_usage(app, std::move(name));
    const std::string footer = make_footer(app);
    text += app->get_parent() != nullptr ? "\n" + footer + "\n" + options(app, mode)
                                         : options(app, mode) + footer;
    for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
    return text;
  }

 private:
  std::string options(const CLI::App* app, CLI::AppFormatMode mode) const {
    return make_positionals(app) + make_groups(app, mode) + make_subcommands(app, mode);
  }
};

// The command that was named last: laconic bench mean.
const CLI::App& chosen(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

std::string path_of(const CLI::App& app) {
  if (app.get_parent() == nullptr) return "laconic";
  return path_of(*app.get_parent()) + " " + app.get_name();
}

std::vector<std::string> names_of_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::string near(const std::string& word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  return std::string(nearest(word, views));
}

// The first word that is neither an option of the command nor follows one; empty: none.
std::string unknown_option(const CLI::App& app, int argc, const char* const* argv) {
  const std::vector<std::string> names = names_of_options(app);
  for (int i = 1; i < argc; ++i) {
    const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    if (word == "--") break;
    if (word.starts_with("--") && std::ranges::find(names, word) == names.end()) return word;
  }
  return "";
}

}  // namespace

void set_help_format(CLI::App& app) {
  auto format = std::make_shared<ExamplesFirst>();
  format->column_width(kColumn);
  app.formatter(format);
}

std::string explained(const CLI::App& app, const CLI::ParseError& error, int argc,
                      const char* const* argv) {
  const CLI::App& command = chosen(app);
  const std::string path = path_of(command), more = fmt::format("{} --help lists all", path);
  const std::vector<std::string> commands = names_of_commands(command);
  const int depth = static_cast<int>(std::ranges::count(path, ' ')) + 1;
  if (!commands.empty() && depth < argc && argv[depth][0] != '-')
    return fmt::format("there is no command \"{} {}\": did you mean {}? {}", path, argv[depth],
                       near(argv[depth], commands), more);
  if (const std::string word = unknown_option(command, argc, argv); !word.empty())
    return fmt::format("{} has no option {}: did you mean {}? {}", path, word,
                       near(word, names_of_options(command)), more);
  return fmt::format("{}; {}", error.what(), more);
}

}  // namespace laconic::app::commands
