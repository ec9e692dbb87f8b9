// Tables of sentences, to rows of tokens.
#include "app/data/tsv.h"

#include "app/data/masked.h"
#include "tests/fuzz/input.h"

using namespace laconic;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  app::DataConfig config;
  config.context = 2 + input.byte() % 40;
  config.path = fuzz::folder().string();
  const std::int64_t held_out = input.byte() % 4;
  const std::string table = input.rest();
  fuzz::put("train.tsv", table);
  fuzz::put("dev.tsv", table);
  const app::Tokenizer tokenizer;
  const std::int64_t first[] = {0};
  app::Batch batch;
  fuzz::accepted([&] {
    const auto split = app::read_sentences(config.path, held_out);
    app::make_sentence_dataset(tokenizer, split, config)->read(app::Split::kTrain, first, 1, batch);
  });
  fuzz::accepted([&] {
    const auto plain = app::read_plain_sentences({config.path}, held_out);
    app::make_masked_dataset(tokenizer, plain, config)->read(app::Split::kTrain, first, 1, batch);
  });
  return 0;
}
