#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "app/data/dataset.h"
#include "app/data/tokenizer.h"

namespace laconic::app::data {

// All of a text: a file, or the files of a directory by name, one after the other, or kGenerated.
// Throws Error(kFile), and Error(kInvalidArgument) for a directory without files.
std::string read_text(const std::string& path);

struct TextSplit {
  std::string_view train, validation;
};
// The last 10 % are for validation; with DataConfig::tuning() the last 10 % of the rest.
TextSplit split_text(std::string_view text) noexcept;
TextSplit split_text(std::string_view text, const DataConfig& config) noexcept;

// Next-token prediction. Training example i is a window that begins at a place drawn from
// [i context, (i + 1) context), so an epoch sees all parts of the text about once, cut anew each
// time. Validation windows lie side by side; the last one is filled up with ignored targets.
// Throws Error(kInvalidArgument) for a text too short for one window.
std::shared_ptr<const Dataset> make_text_dataset(const Tokenizer& tokenizer, std::string_view text,
                                                 const DataConfig& config);

}  // namespace laconic::app::data
