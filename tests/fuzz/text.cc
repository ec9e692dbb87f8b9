// Any bytes as text: a tokenizer learns from them, cuts them and puts them together again.
#include "app/data/text.h"

#include "app/data/masked.h"
#include "tests/fuzz/input.h"

using namespace laconic;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::int64_t vocabulary = app::data::kFirstMerge + input.byte();
  app::data::DataConfig config;
  config.context = 2 + input.byte() % 40;
  const std::string given = input.rest();
  config.path = fuzz::put("text", given).string();
  const std::string text = app::data::read_text(config.path);
  const auto tokenizer = app::data::Tokenizer::train(text, vocabulary);
  fuzz::expect(tokenizer.decode(tokenizer.encode(text)) == given);
  const std::int64_t first[] = {0};
  app::data::Batch batch;
  fuzz::accepted([&] {
    app::data::make_text_dataset(tokenizer, text, config)
        ->read(app::data::Split::kTrain, first, 1, batch);
  });
  fuzz::accepted([&] {
    app::data::make_masked_dataset(tokenizer,
                                   app::data::read_plain_sentences({config.path}, config), config)
        ->read(app::data::Split::kTrain, first, 1, batch);
  });
  return 0;
}
