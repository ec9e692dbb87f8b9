// Tables of sentences, to rows of tokens.
#include "app/data/tsv.h"

#include "app/data/masked.h"
#include "tests/fuzz/input.h"

using namespace laconic;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  app::data::DataConfig config;
  config.context = 2 + input.byte() % 40;
  config.path = fuzz::folder().string();
  const std::uint8_t held = input.byte();
  config.held_out = held % 4;
  if (held & 64) config.validate_on = "tuning";
  const std::string table = input.rest();
  fuzz::put("train.tsv", table);
  fuzz::put("dev.tsv", table);
  const app::data::Tokenizer tokenizer;
  const std::int64_t first[] = {0};
  app::data::Batch batch;
  fuzz::accepted([&] {
    const auto split = app::data::read_sentences(config.path, config);
    app::data::make_sentence_dataset(tokenizer, split, config)
        ->read(app::data::Split::kTrain, first, 1, batch);
  });
  fuzz::accepted([&] {
    const auto plain = app::data::read_plain_sentences({config.path}, config);
    app::data::make_masked_dataset(tokenizer, plain, config)
        ->read(app::data::Split::kTrain, first, 1, batch);
  });
  return 0;
}
