#include "app/commands/command_line.h"

#include <fstream>
#include <iterator>

namespace laconic::app {

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string raw{std::istreambuf_iterator<char>(file), {}};
  std::string line;
  for (std::size_t at = 0; at < raw.size();) {
    std::string word = raw.c_str() + at;
    at += word.size() + 1;
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

}  // namespace laconic::app
