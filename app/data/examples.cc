#include "app/data/examples.h"

#include "laconic/core/error.h"

namespace laconic::app::data {

void check_examples(std::span<const std::int64_t> examples, std::int64_t size) {
  for (const std::int64_t example : examples)
    if (example < 0 || example >= size)
      fail(Code::kInvalidArgument, "example {}: there are {}, from 0 on", example, size);
}

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t digits = 3; digits + (number < 0 ? 1 : 0) < text.size(); digits += 4)
    text.insert(text.size() - digits, 1, ',');
  return text;
}

}  // namespace laconic::app::data
