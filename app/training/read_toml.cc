// It asserts that a table's name begins like a key, then reports the error when it does not.
#define TOML_ASSERT(expr) static_cast<void>(0)
#include <toml++/toml.h>

#include <algorithm>

#include "app/report/file.h"
#include "app/training/run_config.h"
#include "laconic/core/error.h"

namespace laconic::app::training {
namespace {

// The line of the first letter beyond ASCII that is neither quoted nor in a comment; 0: there is
// none. toml++ would run into undefined behaviour.
int line_of_foreign_letter(std::string_view text) {
  int line = 1;
  std::string_view open;  // the quotes that end the string we are in
  for (std::size_t i = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      if (open.size() == 1) open = {};
    } else if (open.empty()) {
      if (c == '#') {
        i = std::min(text.find('\n', i), text.size()) - 1;
      } else if (c == '"' || c == '\'') {
        open = text.substr(i, text.substr(i, 3) == std::string(3, c) ? 3 : 1);
        i += open.size() - 1;
      } else if (static_cast<unsigned char>(c) >= 0x80) {
        return line;
      }
    } else if (c == '\\' && open[0] == '"' && text.substr(i + 1, 1) != "\n") {
      ++i;
    } else if (text.substr(i).starts_with(open)) {
      i += open.size() - 1;
      // Three quotes may have up to two of the string's own before them.
      for (int own = 0; open.size() == 3 && own < 2 && text.substr(i + 1, 1) == open.substr(0, 1);
           ++own)
        ++i;
      open = {};
    }
  }
  return 0;
}

std::string text_of(const toml::node& value, const std::string& name) {
  if (const auto* text = value.as_string()) return text->get();
  if (const auto* number = value.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = value.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = value.as_boolean()) return flag->get() ? "true" : "false";
  fail(Code::kInvalidArgument, "{}: give a string, a number, true or false", name);
}

}  // namespace

std::vector<Assignment> read_toml(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path))
    fail(Code::kFile, "no config file at {}", path.string());
  const std::string text = report::read_text(path);
  if (const int line = line_of_foreign_letter(text))
    fail(Code::kInvalidArgument,
         "{}:{}: a letter beyond ASCII outside quotes: keys have none; put text in \"quotes\"",
         path.string(), line);
  std::vector<Assignment> all;
  try {
    const toml::table table = toml::parse(text, path.string());
    for (const auto& [section, content] : table) {
      const std::string prefix(section.str());
      const auto* keys = content.as_table();
      if (keys == nullptr)
        fail(Code::kInvalidArgument, "{}: {} stands outside a section: write [run], then {} = …",
             path.string(), prefix, prefix);
      for (const auto& [key, value] : *keys) {
        const std::string name = prefix + "." + std::string(key.str());
        all.emplace_back(name, text_of(value, path.string() + ": " + name));
      }
    }
  } catch (const toml::parse_error& error) {
    fail(Code::kInvalidArgument, "{}:{}: {}", path.string(), error.source().begin.line,
         error.description());
  }
  return all;
}

}  // namespace laconic::app::training
