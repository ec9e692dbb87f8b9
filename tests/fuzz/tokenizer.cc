// A cached tokenizer: any bytes, or merges that are sealed as they should be.
#include "app/data/tokenizer.h"

#include <fmt/format.h>

#include "laconic/core/hash.h"
#include "tests/fuzz/input.h"

using namespace laconic;

namespace {

constexpr std::string_view kText = "the cat sat on the mat, the cat sat, and that was that";
constexpr std::int64_t kVocabulary = 300;

std::string eight(std::uint64_t value) { return {reinterpret_cast<const char*>(&value), 8}; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint64_t key = hash64(std::as_bytes(std::span(kText)), kVocabulary);
  const bool any = input.byte() % 2 == 0;
  std::string file = any ? input.rest() : "laconic bpe 1\n" + eight(key) + input.rest();
  if (!any) file += eight(hash64(std::as_bytes(std::span(file))));
  fuzz::put(fmt::format("bpe-{}-{:016x}", kVocabulary, key), file);
  fuzz::accepted([&] {
    const auto tokenizer = app::data::train_or_load(kText, kVocabulary, fuzz::folder());
    for (const std::string& text : {std::string(kText), file})
      fuzz::expect(tokenizer.decode(tokenizer.encode(text)) == text);
  });
  return 0;
}
