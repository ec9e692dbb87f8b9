#include "app/commands/command_line.h"

#include <fstream>
#include <iterator>

namespace laconic::app::commands {

std::vector<std::string> arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string raw{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (std::size_t at = 0; at < raw.size(); at += words.back().size() + 1)
    words.emplace_back(raw.c_str() + at);
  return words;
}

std::string command_line() {
  std::string line;
  for (std::string word : arguments()) {
    if (line.empty()) word = word.substr(word.rfind('/') + 1);
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789-_./,:=+@%") == std::string::npos;
    if (!line.empty()) line += ' ';
    if (plain) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

}  // namespace laconic::app::commands
