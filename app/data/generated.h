#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/data/images.h"
#include "app/data/tsv.h"

// Small data that can be learnt, without files. The same on every machine and for every seed.
namespace laconic::app::data {

// Training and validation images: of each class a blurred pattern, in each image moved a little,
// mixed with some of another class's, and noisy.
std::pair<Images, Images> generated_images(std::int64_t channels, std::int64_t side);

// Sentences about films from a small grammar; the label is their opinion, also through a "not".
std::vector<Sentence> generated_sentences(Split split);

std::string generated_text();  // all generated sentences, one per line

}  // namespace laconic::app::data
