// What says what a run is: a TOML file, or --set.
#include <sstream>

#include "app/training/run_config.h"
#include "tests/fuzz/input.h"

using namespace laconic;
using namespace laconic::app;

namespace {

std::vector<Assignment> assignments_of(fuzz::Input& input) {
  if (input.byte() % 2 == 0) return read_toml(fuzz::put("config.toml", input.rest()));
  std::vector<Assignment> all;
  std::istringstream lines(input.rest());
  for (std::string line; std::getline(lines, line);) all.push_back(parse_assignment(line));
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  fuzz::accepted([&] {
    RunConfig config;
    for (const Assignment& one : assignments_of(input)) assign(config, one);
    // What is written down reads back as the same.
    const auto text = to_text(config);
    RunConfig again;
    for (const auto& one : text) assign(again, one);
    fuzz::expect(to_text(again) == text);
    const RunConfig whole = resolved(config);
    learning_rate(whole);
    check_resumable(text, to_text(whole));
  });
  return 0;
}
