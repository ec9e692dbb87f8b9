// What says what a run is: a TOML file, or --set.
#include <sstream>

#include "app/training/run_config.h"
#include "tests/fuzz/input.h"

using namespace laconic;
using namespace laconic::app;

namespace {

std::vector<training::Assignment> assignments_of(fuzz::Input& input) {
  if (input.byte() % 2 == 0) return training::read_toml(fuzz::put("config.toml", input.rest()));
  std::vector<training::Assignment> all;
  std::istringstream lines(input.rest());
  for (std::string line; std::getline(lines, line);)
    all.push_back(training::parse_assignment(line));
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  fuzz::accepted([&] {
    training::RunConfig config;
    for (const training::Assignment& one : assignments_of(input)) training::assign(config, one);
    // What is written down reads back as the same.
    const auto text = training::to_text(config);
    training::RunConfig again;
    for (const auto& one : text) training::assign(again, one);
    fuzz::expect(training::to_text(again) == text);
    const training::RunConfig whole = training::resolved(config);
    training::learning_rate(whole);
    training::check_resumable(text, training::to_text(whole));
  });
  return 0;
}
