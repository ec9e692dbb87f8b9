#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "laconic/core/error.h"

namespace laconic {

template <typename Call>
std::optional<Error> thrown(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {};
}

template <typename Call>
std::optional<Code> thrown_code(Call call) {
  const auto error = thrown(call);
  return error ? std::optional(error->code()) : std::nullopt;
}

// The error has this code, and all of `words` are in its message.
inline void expect_says(const std::optional<Error>& error, Code code,
                        const std::vector<std::string>& words) {
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), code) << error->what();
  for (const std::string& word : words)
    EXPECT_NE(std::string(error->what()).find(word), std::string::npos)
        << '"' << word << "\" is not in: " << error->what();
}

}  // namespace laconic
