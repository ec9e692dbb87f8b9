#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/data/dataset.h"
#include "app/data/tokenizer.h"

namespace laconic::app::data {

// Sentences without labels: all of one or more paths, each read_sentences' directory, kGenerated,
// or a text, whose lines that are not blank count as sentences.
struct PlainSentences {
  std::vector<std::string> train, validation;
};
PlainSentences read_plain_sentences(const std::vector<std::string>& paths,
                                    const DataConfig& config);

// Masked-language modelling (BERT): an example is kBegin and as many whole sentences as fit, with
// kSeparator between them (longer ones are cut into several). Of its text tokens a fraction `mask`
// is asked for, at least one: of these 80 % are hidden by kMask, 10 % replaced by a random token,
// 10 % left. Validation masks are the same for every seed.
std::shared_ptr<const Dataset> make_masked_dataset(const Tokenizer& tokenizer,
                                                   const PlainSentences& sentences,
                                                   const DataConfig& config);

}  // namespace laconic::app::data
