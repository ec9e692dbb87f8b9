#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/data/dataset.h"
#include "app/data/tokenizer.h"

namespace laconic::app::data {

struct Sentence {
  std::string text;
  std::uint8_t label = 0;  // 0 or 1
};

// A table of sentences with labels 0 or 1. The first line names the columns: the label's is called
// "label" or, where none is, has a label in the first row; the sentence's is called "sentence" or
// is the other of two. Throws Error(kCorrupt) naming file and line.
std::vector<Sentence> read_tsv(const std::filesystem::path& path);

struct SentenceSplit {
  std::vector<Sentence> train, validation;
};

// train.tsv and dev.tsv of a directory (GLUE's SST-2), or kGenerated. With `held_out` above 0 that
// many training sentences, the same in every run, are the validation set and dev.tsv is not read;
// with tuning() a tenth of those left.
SentenceSplit read_sentences(const std::string& path, const DataConfig& config);

// Has the files of read_sentences, rather than text.
bool holds_sentences(const std::string& path);

// Classification: kBegin and the sentence, cut to the context or filled up with kPadding.
std::shared_ptr<const Dataset> make_sentence_dataset(const Tokenizer& tokenizer,
                                                     const SentenceSplit& sentences,
                                                     const DataConfig& config);

}  // namespace laconic::app::data
