// Any bytes as text: a tokenizer learns from them, cuts them and puts them together again.
#include "app/data/text.h"

#include "app/data/masked.h"
#include "tests/fuzz/input.h"

using namespace laconic;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::int64_t vocabulary = app::kFirstMerge + input.byte();
  app::DataConfig config;
  config.context = 2 + input.byte() % 40;
  const std::string given = input.rest();
  config.path = fuzz::put("text", given).string();
  const std::string text = app::read_text(config.path);
  const auto tokenizer = app::Tokenizer::train(text, vocabulary);
  fuzz::expect(tokenizer.decode(tokenizer.encode(text)) == given);
  const std::int64_t first[] = {0};
  app::Batch batch;
  fuzz::accepted([&] {
    app::make_text_dataset(tokenizer, text, config)->read(app::Split::kTrain, first, 1, batch);
  });
  fuzz::accepted([&] {
    app::make_masked_dataset(tokenizer, app::read_plain_sentences({config.path}, 0), config)
        ->read(app::Split::kTrain, first, 1, batch);
  });
  return 0;
}
