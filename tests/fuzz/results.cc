// What runs leave behind: a metrics.jsonl or a summary.json, of a run or of a comparison.
#include "app/report/html.h"
#include "tests/fuzz/input.h"

using namespace laconic;

namespace {

constexpr const char* kRecord =
    R"({"step":1,"loss":0.5,"lr":0.1,"kind":"dense","bytes":8,"bytes_total":8,"seconds":1,"step_seconds":1,)"
    R"("exposed_seconds":0,"bad_blocks":0})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const bool metrics = input.byte() % 2 == 0;
  fuzz::put("metrics.jsonl", metrics ? input.rest() : std::string(kRecord) + "\n");
  fuzz::put("summary.json",
            metrics ? R"({"optimizer":"adamw","task":"text","model":"gpt2"})" : input.rest());
  fuzz::accepted([] { app::report::render({fuzz::folder()}); });
  return 0;
}
